/**
 * One turn of the chat: a message row, and its answer read from the durable stream as it is written. Who
 * writes it does not matter here, except for what the progress line says and for whom `kill` kills.
 */
import { followGeneration, sendMessage } from '../../src/server.js'
import type { GenerationUpdate } from '../../src/server.js'
import { Consent } from './consent.js'
import type { Demo } from './demo.js'
import { Reading } from './reading.js'
import { demoTools } from './tools.js'

export interface Turn {
  question: string
  generationId: string
  status: GenerationUpdate['status']
  error?: string
  reading: Reading
  /** For the progress line. */
  state: string
}

export interface TurnOptions {
  sessionId: string
  question: string
  /** kill -9 whoever writes the answer, in mid-sentence. */
  kill: boolean
  /** Cancels the turn. */
  signal: AbortSignal
}

/** In mid-sentence: so much has been read, and the sentence is not over. */
const KILL_AFTER_CHARS = 60

const ASKED_ABOUT = new Set(
  demoTools()
    .filter(({ needsApproval }) => needsApproval)
    .map(({ name }) => name),
)

/** @returns the turn as it ended; its status is 'cancelled' when the signal fired. */
export async function takeTurn(demo: Demo, options: TurnOptions): Promise<Turn> {
  const { db, store, streamsUrl, workers, screen } = demo
  const { sessionId, question, signal } = options
  await workers.ready()
  const message = await sendMessage(db, { sessionId, content: question })
  const reading = new Reading()
  const generationId = await store.generationForMessage(message.id)
  if (generationId === undefined) throw new Error(`Message ${message.id} has no generation.`)
  const turn: Turn = { question, generationId, status: 'streaming', reading, state: 'waiting' }
  const streams = { url: streamsUrl }
  workers.onReport = (worker, report) => {
    if (report.type === 'trouble') screen.note(`${worker.name}: ${report.message}`)
    if (report.type === 'claimed') turn.state = 'claimed'
    showProgress(demo, turn)
  }
  showProgress(demo, turn)
  const asked = { db, screen, sessionId, generationId, tools: ASKED_ABOUT, signal }
  const consent = new Consent(asked)
  for await (const update of followGeneration({ db, streams, generationId, signal })) {
    show(demo, turn, update)
    consent.take(update)
    if (options.kill) killInMidSentence(demo, turn, update)
  }
  if (signal.aborted && (await store.cancelGeneration(generationId))) turn.status = 'cancelled'
  workers.onReport = () => {}
  screen.progress('')
  screen.endLine()
  return turn
}

function show(demo: Demo, turn: Turn, update: GenerationUpdate): void {
  const { screen } = demo
  const { reading } = turn
  turn.status = update.status
  if (update.error !== undefined) turn.error = update.error
  reading.take(update)
  if (update.rewritten) {
    screen.endLine()
    screen.note('(written anew)')
  }
  screen.text(update.rewritten ? update.text : update.appended)
  turn.state = stateOf(update) ?? turn.state
  showProgress(demo, turn)
}

function killInMidSentence(demo: Demo, { generationId, reading }: Turn, update: GenerationUpdate) {
  if (reading.killed || update.status !== 'streaming') return
  if (reading.shown.length < KILL_AFTER_CHARS || /[.!?]\s*$/.test(reading.shown)) return
  const holder = demo.workers.holderOf(generationId)
  if (holder === undefined) return
  reading.noteKill(update.transcript.attempt)
  holder.child.kill('SIGKILL')
  demo.screen.note(`kill -9: ${holder.name}, after ${reading.shown.length} characters`)
}

function showProgress({ workers, screen }: Demo, { generationId, reading, state }: Turn): void {
  const holder = workers.holderOf(generationId)
  const pace = reading.tokensPerSecond
  const parts = holder === undefined ? ['no worker has it'] : [holder.name, state]
  screen.progress([...parts, ...(pace > 0 ? [`${pace} tokens/s`] : [])].join(' · '))
}

/** Undefined: nothing of it can be seen yet. */
function stateOf({ transcript }: GenerationUpdate): string | undefined {
  const step = transcript.steps.at(-1)
  if (step === undefined) return undefined
  const open = step.toolCalls.filter(({ state }) => state === 'streaming' || state === 'called')
  if (open.length > 0) return `calling ${open.map(({ name }) => name).join(', ')}`
  return step.text === '' ? 'thinking' : 'streaming'
}
