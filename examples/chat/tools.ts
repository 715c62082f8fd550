/**
 * The server tools of the chat example: arithmetic, the time in a place, a small encyclopedia, and one that people are
 * asked about before it runs.
 *
 * All are pure apart from the clock, so running one twice does no harm: `delete_file` only says that it did. A tool that fails throws
 * with a message for the model to read; the loop hands it over and goes on.
 */
import { toolDefinition } from '@tanstack/ai'
import { z } from 'zod'

export interface DemoToolsOptions {
  /** The clock of `current_time`. @default the machine's */
  now?: () => Date
}

const calculateTool = toolDefinition({
  name: 'calculate',
  description: 'Evaluates arithmetic: + - * / % ^ and parentheses. Use it for every sum.',
  inputSchema: z.object({ expression: z.string().max(200) }),
  outputSchema: z.object({ expression: z.string(), result: z.number() }),
})

const currentTimeTool = toolDefinition({
  name: 'current_time',
  description: 'The date and time in a city or IANA time zone.',
  inputSchema: z.object({ place: z.string().max(100) }),
  outputSchema: z.object({
    place: z.string(),
    timeZone: z.string(),
    time: z.string(),
    weekday: z.string(),
    date: z.string(),
  }),
})

const lookupTool = toolDefinition({
  name: 'lookup',
  description: 'Looks up a person, place or thing in a small encyclopedia.',
  inputSchema: z.object({ topic: z.string().max(200) }),
  outputSchema: z.object({
    found: z.boolean(),
    topic: z.string(),
    summary: z.string().optional(),
  }),
})

const deleteFileTool = toolDefinition({
  name: 'delete_file',
  description: 'Deletes a file for good. People are asked first.',
  inputSchema: z.object({ file: z.string().min(1).max(200) }),
  outputSchema: z.object({ deleted: z.string() }),
  needsApproval: true,
})

export function demoTools({ now = () => new Date() }: DemoToolsOptions = {}) {
  return [
    calculateTool.server(({ expression }) => ({ expression, result: evaluate(expression) })),
    currentTimeTool.server(({ place }) => timeIn(place, now())),
    lookupTool.server(({ topic }) => lookUp(topic)),
    // A demo has no files to lose.
    deleteFileTool.server(({ file }) => ({ deleted: file })),
  ]
}

/**
 * Arithmetic by recursive descent. Written here because the fitting library, `expr-eval`, is no longer
 * maintained and has an advisory for running code from an expression, and `mathjs` is megabytes for
 * six operators. `^` binds tighter than a leading minus and to the right; `%` is the remainder.
 */
export function evaluate(expression: string): number {
  const tokens = expression.match(/\d+(?:\.\d+)?|\.\d+|[^\s\d]/g) ?? []
  let at = 0
  const refuse = (what: string): never => {
    throw new Error(`Cannot calculate "${expression}": ${what}.`)
  }
  const take = (...wanted: string[]): string | undefined =>
    wanted.includes(tokens[at] ?? '') ? tokens[at++] : undefined

  function sum(): number {
    let value = product()
    for (let op = take('+', '-', '−'); op !== undefined; op = take('+', '-', '−')) {
      const right = product()
      value = op === '+' ? value + right : value - right
    }
    return value
  }
  function product(): number {
    let value = signed()
    for (let op = take('*', '×', '/', '÷', '%'); op; op = take('*', '×', '/', '÷', '%')) {
      const right = signed()
      if (op === '*' || op === '×') value *= right
      else if (right === 0) refuse('it divides by zero')
      else value = op === '%' ? value % right : value / right
    }
    return value
  }
  function signed(): number {
    const sign = take('-', '−', '+')
    if (sign === undefined) return power()
    return sign === '+' ? signed() : -signed()
  }
  function power(): number {
    const base = atom()
    return take('^') === undefined ? base : base ** signed()
  }
  function atom(): number {
    if (take('(') !== undefined) {
      const value = sum()
      return take(')') === undefined ? refuse('a closing parenthesis is missing') : value
    }
    const token = tokens[at++]
    if (token === undefined) return refuse('it ends too early')
    return /\d/.test(token) ? Number(token) : refuse(`"${token}" is not a number`)
  }

  const value = sum()
  if (at < tokens.length) refuse(`"${tokens[at] ?? ''}" is not expected there`)
  if (!Number.isFinite(value)) refuse('the result is not a finite number')
  return Number(value.toPrecision(15)) // 0.1 + 0.2 is 0.3: the last binary digit is noise
}

/** Cities that no IANA zone is named after. */
const MORE_CITIES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    beijing: 'Asia/Shanghai',
    mumbai: 'Asia/Calcutta',
    delhi: 'Asia/Calcutta',
    'new delhi': 'Asia/Calcutta',
    bangalore: 'Asia/Calcutta',
    osaka: 'Asia/Tokyo',
    'san francisco': 'America/Los_Angeles',
    seattle: 'America/Los_Angeles',
    boston: 'America/New_York',
    washington: 'America/New_York',
    'washington dc': 'America/New_York',
    'rio de janeiro': 'America/Sao_Paulo',
    'cape town': 'Africa/Johannesburg',
    barcelona: 'Europe/Madrid',
    milan: 'Europe/Rome',
    geneva: 'Europe/Zurich',
    munich: 'Europe/Berlin',
    hamburg: 'Europe/Berlin',
    frankfurt: 'Europe/Berlin',
    edinburgh: 'Europe/London',
    utc: 'UTC',
    gmt: 'UTC',
  }),
)

function timeIn(place: string, now: Date) {
  const timeZone = timeZoneOf(place)
  const part = (options: Intl.DateTimeFormatOptions, locale = 'en-GB'): string =>
    new Intl.DateTimeFormat(locale, { timeZone, ...options }).format(now)
  return {
    place,
    timeZone,
    time: part({ hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }),
    weekday: part({ weekday: 'long' }),
    date: part({ year: 'numeric', month: '2-digit', day: '2-digit' }, 'en-CA'),
  }
}

function timeZoneOf(place: string): string {
  const wanted = place.trim().toLowerCase()
  const city = (wanted.split(',')[0] ?? '').replace(/[.]/g, '').trim()
  const zones = Intl.supportedValuesOf('timeZone')
  const zone =
    zones.find((name) => name.toLowerCase() === wanted.replaceAll(' ', '_')) ??
    MORE_CITIES.get(city) ??
    zones.find((name) => name.toLowerCase().endsWith(`/${city.replaceAll(' ', '_')}`))
  if (zone !== undefined) return zone
  throw new Error(
    `No time zone is known for "${place}". Give a city such as Tokyo or a zone such as Europe/Paris.`,
  )
}

/* prettier-ignore */
const ENCYCLOPEDIA: ReadonlyMap<string, string> = new Map(Object.entries({
  'ada lovelace': 'Ada Lovelace (1815–1852) was an English mathematician who published the first algorithm meant for a machine, Babbage’s Analytical Engine.',
  'alan turing': 'Alan Turing (1912–1954) was an English mathematician who defined what a computation is and helped to break the Enigma cipher.',
  'grace hopper': 'Grace Hopper (1906–1992) was an American rear admiral and computer scientist who wrote one of the first compilers.',
  'marie curie': 'Marie Curie (1867–1934) was a Polish and French physicist and chemist, and the first person to win two Nobel Prizes.',
  'albert einstein': 'Albert Einstein (1879–1955) was a German-born physicist who developed the theory of relativity.',
  'eiffel tower': 'The Eiffel Tower is a wrought-iron tower in Paris, opened in 1889 and 330 metres tall today.',
  'mount everest': 'Mount Everest is the highest mountain above sea level, 8,849 metres tall, on the border of Nepal and China.',
  octopus: 'An octopus is a sea animal with eight arms, three hearts and blue blood, and most of its neurons are in its arms.',
  photosynthesis: 'Photosynthesis is how plants, algae and some bacteria turn light, water and carbon dioxide into sugar and oxygen.',
  postgres: 'PostgreSQL is an open-source relational database that began at Berkeley in 1986 as POSTGRES.',
  'black hole': 'A black hole is a region of space whose gravity is so strong that not even light can leave it.',
  durability: 'Durability is the promise that what a database has committed survives a crash; it is the D of ACID.',
}))

function lookUp(topic: string): { found: boolean; topic: string; summary?: string } {
  const key = topic
    .trim()
    .toLowerCase()
    .replace(/^(?:the|an?)\s+/, '')
  const summary = ENCYCLOPEDIA.get(key === 'postgresql' ? 'postgres' : key)
  return summary === undefined ? { found: false, topic } : { found: true, topic, summary }
}
