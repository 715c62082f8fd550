/**
 * What a reader sees of a generation: its log (`transcript-items.ts`) folded into one immutable value.
 *
 * Pure, and the same for every way the log travels (durable stream, chunk rows) and however its deltas
 * were cut or merged. Coherence over attempts is decided here: an `attempt` item drops what its worker
 * does not keep, and what a deposed worker still manages to write is ignored. Types from a newer
 * version of the library are skipped, so an old tab outlives a deploy.
 *
 * Not here: which writer may write (that is the stream's epoch and the row's attempt).
 */
import type {
  DoneItem,
  SettledStatus,
  TranscriptItem,
  TranscriptItemOf,
} from './transcript-items.js'

export * from './transcript-items.js'

export interface TranscriptToolCall {
  readonly id: string
  readonly name: string
  /** The arguments' JSON text so far; whole once the state has left `streaming`. */
  readonly args: string
  readonly state: 'streaming' | 'called' | SettledStatus
  readonly result?: unknown
  readonly error?: string
}

export interface TranscriptStep {
  readonly text: string
  readonly thinking: string
  readonly toolCalls: readonly TranscriptToolCall[]
  readonly ended: boolean
}

export interface Transcript {
  /** The attempt that wrote last; 0 before the first item. */
  readonly attempt: number
  readonly status: 'streaming' | SettledStatus
  readonly error?: string
  readonly steps: readonly TranscriptStep[]
  /** Set while the log shows items of an attempt lower than `attempt`: they are not the transcript's. */
  readonly ignoring?: true
}

export const emptyTranscript: Transcript = { attempt: 0, status: 'streaming', steps: [] }

const emptyStep: TranscriptStep = { text: '', thinking: '', toolCalls: [], ended: false }

/** Steps' texts as one. The cutover builds the message's content with it: live text and row are equal. */
export function joinStepTexts(texts: readonly string[]): string {
  return texts.filter((text) => text !== '').join('\n\n')
}

export function transcriptText(transcript: Transcript): string {
  return joinStepTexts(transcript.steps.map((step) => step.text))
}

export function applyItem(transcript: Transcript, item: TranscriptItem): Transcript {
  if (item.type !== 'attempt' && (transcript.ignoring || transcript.status !== 'streaming')) {
    return transcript
  }
  if (!Object.hasOwn(handlers, item.type)) return transcript
  return (handlers[item.type] as Handler<TranscriptItem>)(transcript, item)
}

export function applyItems(transcript: Transcript, items: readonly TranscriptItem[]): Transcript {
  return items.reduce(applyItem, transcript)
}

type Handler<Item> = (transcript: Transcript, item: Item) => Transcript

const handlers: { [Type in TranscriptItem['type']]: Handler<TranscriptItemOf<Type>> } = {
  attempt: beginAttempt,
  text: (t, { step, delta }) =>
    delta === '' ? t : inStep(t, step, (s) => ({ ...s, text: s.text + delta })),
  thinking: (t, { step, delta }) =>
    delta === '' ? t : inStep(t, step, (s) => ({ ...s, thinking: s.thinking + delta })),
  'tool-call-start': (t, { step, id, name }) =>
    inCall(t, step, id, (call) =>
      isSettled(call) ? call : { id, name, args: '', state: 'streaming' },
    ),
  'tool-call-args': (t, { step, id, delta }) =>
    inCall(t, step, id, (call) =>
      call?.state === 'streaming' ? { ...call, args: call.args + delta } : call,
    ),
  'tool-call-end': (t, { step, id }) =>
    inCall(t, step, id, (call) =>
      call?.state === 'streaming' ? { ...call, state: 'called' } : call,
    ),
  'tool-result': (t, item) =>
    inCall(t, item.step, item.id, (call) => (isSettled(call) ? call : settledCall(call, item))),
  'step-end': (t, { step }) => inStep(t, step, (s) => ({ ...s, ended: true })),
  done: (t, { status, error }) => ({ ...t, status, ...(error === undefined ? {} : { error }) }),
}

function beginAttempt(transcript: Transcript, item: TranscriptItemOf<'attempt'>): Transcript {
  if (item.attempt < transcript.attempt) return { ...transcript, ignoring: true }
  const done = transcript.steps
    .slice(0, Math.max(0, item.step))
    .map((step) => (step.ended ? step : { ...step, ended: true }))
  const begun = transcript.steps[item.step]
  const kept = begun && keptOf(begun, item.keep)
  return {
    attempt: item.attempt,
    status: 'streaming',
    steps: kept ? [...done, kept] : done,
  }
}

/** What a takeover leaves of the step it begins at; nothing if the step starts over. */
function keptOf(step: TranscriptStep, keep: number): TranscriptStep | undefined {
  const text = step.text.slice(0, Math.max(0, keep))
  const toolCalls = step.toolCalls.filter(isSettled)
  if (text === '' && toolCalls.length === 0) return undefined
  return { text, thinking: step.thinking, toolCalls, ended: false }
}

function inStep(
  transcript: Transcript,
  index: number,
  change: (step: TranscriptStep) => TranscriptStep,
): Transcript {
  if (!(index >= 0)) return transcript
  const old = transcript.steps[index] ?? emptyStep
  const step = change(old)
  if (step === old) return transcript
  const steps = [...transcript.steps]
  while (steps.length < index) steps.push(emptyStep)
  steps[index] = step
  return { ...transcript, steps }
}

function inCall(
  transcript: Transcript,
  step: number,
  id: string,
  change: (call: TranscriptToolCall | undefined) => TranscriptToolCall | undefined,
): Transcript {
  return inStep(transcript, step, (old) => {
    const at = old.toolCalls.findIndex((call) => call.id === id)
    const call = change(old.toolCalls[at])
    if (call === undefined || call === old.toolCalls[at]) return old
    const toolCalls = at < 0 ? [...old.toolCalls, call] : old.toolCalls.with(at, call)
    return { ...old, toolCalls }
  })
}

function isSettled(call: TranscriptToolCall | undefined): boolean {
  return call !== undefined && call.state !== 'streaming' && call.state !== 'called'
}

function settledCall(
  call: TranscriptToolCall | undefined,
  { id, name, status, result, error }: TranscriptItemOf<'tool-result'>,
): TranscriptToolCall {
  return {
    id,
    name: call?.name ?? name,
    args: call?.args ?? '',
    state: status,
    ...(result === undefined ? {} : { result }),
    ...(error === undefined ? {} : { error }),
  }
}

/**
 * The items that rebuild a transcript over whatever a log holds: the first begins the attempt before
 * step 0 (step -1), which keeps nothing.
 */
export function transcriptToItems(transcript: Transcript): TranscriptItem[] {
  const { attempt, status, error } = transcript
  const items: TranscriptItem[] = [{ type: 'attempt', attempt, step: -1, keep: 0 }]
  transcript.steps.forEach((step, index) => items.push(...stepToItems(step, index)))
  if (status === 'streaming') return items
  const done: DoneItem = { type: 'done', status, ...(error === undefined ? {} : { error }) }
  return [...items, done]
}

function stepToItems(step: TranscriptStep, index: number): TranscriptItem[] {
  const items: TranscriptItem[] = []
  if (step.thinking !== '') items.push({ type: 'thinking', step: index, delta: step.thinking })
  if (step.text !== '') items.push({ type: 'text', step: index, delta: step.text })
  for (const call of step.toolCalls) items.push(...callToItems(call, index))
  if (step.ended) items.push({ type: 'step-end', step: index })
  return items
}

function callToItems(call: TranscriptToolCall, step: number): TranscriptItem[] {
  const { id, name, args, state, result, error } = call
  const items: TranscriptItem[] = [{ type: 'tool-call-start', step, id, name }]
  if (args !== '') items.push({ type: 'tool-call-args', step, id, delta: args })
  if (state !== 'streaming') items.push({ type: 'tool-call-end', step, id })
  if (state === 'streaming' || state === 'called') return items
  const settled = { status: state, ...(result === undefined ? {} : { result }) }
  const failure = error === undefined ? {} : { error }
  items.push({ type: 'tool-result', step, id, name, ...settled, ...failure })
  return items
}
