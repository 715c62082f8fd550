/**
 * One turn of the chat: a message row, and its answer read from the durable stream as it is written. Who
 * writes it does not matter here, except for what the progress line says and for whom `kill` kills.
 */
import { followGeneration, sendMessage } from '../../src/server.js'
import type { GenerationUpdate } from '../../src/server.js'
import type { Demo } from './demo.js'
import { Reading } from './reading.js'

export interface Turn {
  question: string
  generationId: string
  status: GenerationUpdate['status']
  error?: string
  reading: Reading
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

/** @returns the turn as it ended; its status is 'cancelled' when the signal fired. */
export async function takeTurn(demo: Demo, options: TurnOptions): Promise<Turn> {
  const { db, store, streamsUrl, workers } = demo
  const { sessionId, question, signal } = options
  await workers.ready()
  const message = await sendMessage(db, { sessionId, content: question })
  const reading = new Reading()
  const generationId = await store.generationForMessage(message.id)
  if (generationId === undefined) throw new Error(`Message ${message.id} has no generation.`)
  const turn: Turn = { question, generationId, status: 'streaming', reading }
  const streams = { url: streamsUrl }
  workers.onReport = () => showProgress(demo, turn)
  showProgress(demo, turn)
  for await (const update of followGeneration({ db, streams, generationId, signal })) {
    show(demo, turn, update)
    if (options.kill) killInMidSentence(demo, turn, update)
  }
  if (signal.aborted && (await store.cancelGeneration(generationId))) turn.status = 'cancelled'
  workers.onReport = () => {}
  demo.screen.progress('')
  demo.screen.endLine()
  return turn
}

function show({ screen, ...demo }: Demo, turn: Turn, update: GenerationUpdate): void {
  const { reading } = turn
  turn.status = update.status
  if (update.error !== undefined) turn.error = update.error
  reading.take(update)
  if (update.rewritten) {
    screen.endLine()
    screen.note('(written anew)')
  }
  screen.text(update.rewritten ? update.text : update.appended)
  showProgress({ screen, ...demo }, turn, update)
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

function showProgress(demo: Demo, { generationId, reading }: Turn, update?: GenerationUpdate) {
  const holder = demo.workers.holderOf(generationId)
  if (holder === undefined) return demo.screen.progress('no worker has it')
  demo.screen.progress([holder.name, stateOf(update), paceOf(reading)].filter(Boolean).join(' · '))
}

function stateOf(update: GenerationUpdate | undefined): string {
  const step = update?.transcript.steps.at(-1)
  if (step === undefined) return 'claimed'
  const open = step.toolCalls.filter(({ state }) => state === 'streaming' || state === 'called')
  if (open.length > 0) return `calling ${open.map(({ name }) => name).join(', ')}`
  return step.text === '' ? 'thinking' : 'streaming'
}

const paceOf = (reading: Reading) =>
  reading.tokensPerSecond > 0 ? `${reading.tokensPerSecond} tokens/s` : ''
