/**
 * What the offline model understands of a question: sums, times in places, things to look up and a
 * wish to delete, as the tool calls that would answer them. Pattern matching and nothing more, so the
 * same question always gives the same plan.
 */

/** Arguments by tool name, in the order the offline model asks for them. */
export interface PlannedCall {
  name: 'calculate' | 'current_time' | 'lookup' | 'delete_file' | 'delete_all_notes'
  args: Record<string, string>
}

/** Every call the question asks for, without repeats. */
export function planToolCalls(question: string): PlannedCall[] {
  const calls: PlannedCall[] = [
    ...findSums(question).map((expression) => call('calculate', { expression })),
    ...findPlaces(question).map((place) => call('current_time', { place })),
    ...findTopics(question).map((topic) => call('lookup', { topic })),
    ...findDeletions(question),
  ]
  const seen = new Map(calls.map((planned) => [JSON.stringify(planned).toLowerCase(), planned]))
  return [...seen.values()]
}

function call(name: PlannedCall['name'], args: Record<string, string>): PlannedCall {
  return { name, args }
}

const DELETION_WISHED = /\b(?:delete|erase|wipe)\b/i
const FILE_NAME = /(?<![\w/.-])[\w/-][\w./-]*\.[a-z]\w{0,7}\b/gi

/** The files named in a wish to delete; a wish that names none is about all notes. */
function findDeletions(question: string): PlannedCall[] {
  const from = question.search(DELETION_WISHED)
  if (from < 0) return []
  const files = question.slice(from).match(FILE_NAME) ?? []
  return files.length > 0
    ? files.map((file) => call('delete_file', { file }))
    : [call('delete_all_notes', {})]
}

const SPOKEN_OPERATORS: readonly (readonly [RegExp, string])[] = [
  [/×|(?<=\d[ \t]*)(?:x|times|multiplied by)(?=[ \t]*\d)/gi, '*'],
  [/÷|(?<=\d[ \t]*)(?:divided by|over)(?=[ \t]*\d)/gi, '/'],
  [/(?<=\d[ \t]*)plus(?=[ \t]*\d)/gi, '+'],
  [/−|(?<=\d[ \t]*)minus(?=[ \t]*\d)/gi, '-'],
  [/(?<=\d),(?=\d{3}\b)/g, ''],
]
const ARITHMETIC_RUN = /(?:\d+(?:\.\d+)?|\.\d+|[-+*/%^() \t])+/g
const BETWEEN_TWO_SUMS = /(?<=[\d)])[ \t]+(?=[\d(.])/
const HAS_OPERATION = /[\d)][ \t]*[-+*/%^][ \t]*[-(]*[ \t]*[\d.]/
const ISO_DATE = /^\d{4}-\d{1,2}-\d{1,2}$/

function findSums(question: string): string[] {
  let text = question
  for (const [spoken, operator] of SPOKEN_OPERATORS) text = text.replace(spoken, operator)
  return (text.match(ARITHMETIC_RUN) ?? [])
    .flatMap((run) => run.trim().split(BETWEEN_TWO_SUMS))
    .map(trimSum)
    .filter((sum) => HAS_OPERATION.test(sum) && !ISO_DATE.test(sum))
}

/** Drops what belongs to the sentence: list dashes, a dangling operator, an unmatched parenthesis. */
function trimSum(run: string): string {
  let sum = run.replace(/^[-+*/%^ \t]+(?=[ \t(])|^[+*/%^]+|[-+*/%^( \t]+$/g, '').trim()
  const count = (char: string): number => sum.split(char).length - 1
  while (sum.endsWith(')') && count(')') > count('(')) sum = sum.slice(0, -1).trim()
  while (sum.startsWith('(') && count('(') > count(')')) sum = sum.slice(1).trim()
  return sum
}

// The captures are lookaheads, so that a second question inside the first one's tail is found too.
const TIME_ASKED =
  /(?:\btime is it|\btime it is|(?<!\b(?:all|by|of|at|for) )\bthe (?:current |local )?time|\b(?:current|local) time|^\s*time)(?: (?:right )?now| currently)?(?= (?:in|at|for) ([^?!.;\n]+)|[?!.\n]|$)/gim

function findPlaces(question: string): string[] {
  const asked = [...question.matchAll(TIME_ASKED)]
  const places = asked.flatMap((match) => listed(match[1] ?? ''))
  return asked.length > 0 && places.length === 0 ? ['UTC'] : places
}

const TOPIC_ASKED =
  /\b(?:look(?:ing)? up|search for|who (?:is|was|are|were)|what(?: is|['’]s) an?|what are|tell me about)(?= ([^?!.;\n]+))/gi

function findTopics(question: string): string[] {
  return [...question.matchAll(TOPIC_ASKED)].flatMap((match) => listed(match[1] ?? ''))
}

const CLAUSE_START =
  /^(?:what|who|when|where|why|how|look|search|tell|give|calculate|compute|is|are|can|could|please|then|also|do|delete|erase|wipe|explain|the (?:current |local )?time)\b/i
const PRONOUN = /^(?:you|it|this|that|there|he|she|they|we|i|me|yourself|itself|more)$/i

/** The names at the head of "Tokyo, the Paris and what is 2+2": up to the first that begins a new clause. */
function listed(text: string): string[] {
  const names: string[] = []
  for (const part of text.split(/,|\band\b|&/i)) {
    const name = part
      .trim()
      .replace(/^(?:the|an?|in|at|for)\s+/i, '')
      .replace(/\s+(?:right now|now|currently|today|please|at the moment)$/i, '')
    if (name === '') continue
    if (CLAUSE_START.test(part.trim()) || PRONOUN.test(name) || !/^\p{L}/u.test(name)) break
    if (name.split(/\s+/).length > 5) break
    names.push(name)
  }
  return names
}
