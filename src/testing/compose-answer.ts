/**
 * The offline model's prose: an answer that quotes each tool result, a long text, or a word on what it
 * can do. A pure function of what it is given: a run that was killed and one that was not must come to
 * the same words. Answers are long enough to be killed in the middle of.
 */

/** A tool call of the current question with what came back. */
export interface AnsweredCall {
  name: string
  args: Record<string, unknown>
  /** The tool message's content, parsed when it is JSON; undefined when no result came. */
  result: unknown
}

/** Prose over every result, errors told as errors. */
export function composeToolAnswer(calls: readonly AnsweredCall[]): string {
  const opening = calls.length === 1 ? 'Here is what I found.' : 'Here is what I found, in order.'
  return [
    `${opening} ${calls.map(describe).join(' ')}`,
    'I did not work any of this out myself: each call was stored as a row before its tool ran, and I ' +
      'read only the results. So if my process dies in the middle of this sentence, another one can ' +
      'pick the answer up and finish it, word for word.',
  ].join('\n\n')
}

/** About 200 words for a wish for a story or an explanation. */
export function composeLongAnswer(question: string): string {
  return [
    `You asked: “${brief(question)}”. I am the offline model, so what I tell best is how this answer reaches you.`,
    'Once there was a worker who was asked for an answer and began to write it down. Its words went out ' +
      'one by one on a stream, and beside the stream there was a table, where every step it finished ' +
      'was kept as a row. The worker knew that it could be stopped at any moment, and did not mind, ' +
      'because nothing that mattered was only in its head.',
    'One evening, halfway through a sentence, the power went out. The worker was gone before it could ' +
      'say goodbye. But the database saw the connection close, and the row of its work went back to ' +
      'waiting. A second worker, who had been asleep, heard the bell, took the row, read the words that ' +
      'were already there, and went on from the very next one.',
    'The reader at the other end saw a short pause and nothing else: no word twice and no word lost. When ' +
      'the first worker came back and tried to finish its old sentence, the row answered that another ' +
      'attempt owned it now, and the late words could not land anywhere.',
    'That is the whole story. Kill my process while I tell it and you will read the same text to its end.',
  ].join('\n\n')
}

/** What it can do, with the question echoed. */
export function composeHelp(question: string, tools: readonly string[]): string {
  const abilities = ABILITIES.filter(([tool]) => tools.includes(tool)).map(([, text]) => text)
  const said = brief(question)
  return [
    said === '' ? 'Hello! I am the offline model.' : `You said: “${said}”. I am the offline model.`,
    'I need no key and no network, and I always answer the same way.',
    abilities.length > 0 ? `You can ask me ${sentenceList(abilities)}.` : '',
    'Ask me to tell you a story if you want a longer answer to interrupt.',
  ]
    .filter((part) => part !== '')
    .join(' ')
}

const ABILITIES: readonly (readonly [tool: string, text: string])[] = [
  ['calculate', 'for a sum such as 17*23'],
  ['current_time', 'what time it is in Tokyo'],
  ['lookup', 'who Ada Lovelace is'],
  ['delete_file', 'to delete a file such as notes.txt (you will be asked first)'],
  ['delete_all_notes', 'to delete all notes (you will be asked first)'],
]

function describe({ name, args, result }: AnsweredCall): string {
  const failure = errorOf(result)
  if (failure !== undefined) {
    return `The tool ${name} failed${subject(args)}: ${endSentence(failure)}`
  }
  const fields: Record<string, unknown> = isRecord(result) ? result : { result }
  if (name === 'calculate' && fields.result !== undefined) {
    return `${String(fields.expression ?? args.expression)} is ${plain(fields.result)}.`
  }
  if (name === 'current_time' && fields.time !== undefined) {
    const day = [fields.weekday, longDate(fields.date)].filter(Boolean).join(', ')
    const where = String(fields.place ?? args.place)
    return `In ${where} it is ${plain(fields.time)}${day === '' ? '' : ` on ${day}`}.`
  }
  if (name === 'delete_file' && fields.deleted !== undefined) {
    return `The file ${plain(fields.deleted)} is deleted, as you allowed.`
  }
  if (name === 'lookup' && fields.found === false) {
    return `I looked up ${String(args.topic)}, and the encyclopedia has no entry for it.`
  }
  if (name === 'lookup' && typeof fields.summary === 'string') return endSentence(fields.summary)
  return result === undefined
    ? `The tool ${name} gave no result${subject(args)}.`
    : `The tool ${name} answered${subject(args)}: ${endSentence(plain(result))}`
}

function errorOf(result: unknown): string | undefined {
  if (!isRecord(result) || result.error === undefined) return undefined
  return isRecord(result.error) ? plain(result.error.message ?? result.error) : plain(result.error)
}

function subject(args: Record<string, unknown>): string {
  const values = Object.values(args).map(plain)
  return values.length === 0 ? '' : ` for “${values.join(', ')}”`
}

function longDate(date: unknown): string {
  const parsed = typeof date === 'string' ? new Date(`${date}T00:00:00Z`) : undefined
  if (parsed === undefined || Number.isNaN(parsed.getTime())) return plain(date ?? '')
  const form = { day: 'numeric', month: 'long', year: 'numeric', timeZone: 'UTC' } as const
  return parsed.toLocaleDateString('en-GB', form)
}

function sentenceList(parts: readonly string[]): string {
  return parts.length < 2
    ? parts.join('')
    : `${parts.slice(0, -1).join(', ')} or ${parts.at(-1) ?? ''}`
}

function brief(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim()
  return line.length > 160 ? `${Array.from(line).slice(0, 159).join('')}…` : line
}

function endSentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`
}

function plain(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
