/**
 * Reads a live transcript from chunk rows: the same looks as `readTranscript` gives from a stream.
 *
 * Rows that the cutover folded away are missed by nobody: what was seen stays, and `done` ends it.
 */
import { pause } from './backoff.js'
import { itemsFromChunks, type PackedChunk } from './packed-chunks.js'
import { TranscriptView, type TranscriptUpdate } from './transcript-view.js'
import { applyItems, emptyTranscript, type DoneItem } from './transcript.js'

export interface ReadPackedTranscriptOptions {
  /** The rows after an index (-1: all), in order, and the generation's end if its row tells one. */
  load: (afterIndex: number) => Promise<{ rows: readonly PackedChunk[]; done?: DoneItem }>
  /** Resolves when another look may pay (a synced delta), or its signal aborts. @default waits `pollMs` */
  wait?: (signal: AbortSignal) => Promise<void>
  /** @default 250 */
  pollMs?: number
  /** Ends the iteration, without an error. */
  signal?: AbortSignal
}

export async function* readPackedTranscript(
  options: ReadPackedTranscriptOptions,
): AsyncGenerator<TranscriptUpdate, void> {
  const { pollMs = 250, signal } = options
  const stop = new AbortController()
  const abort = () => stop.abort()
  signal?.addEventListener('abort', abort)
  if (signal?.aborted) abort()
  try {
    const wait = options.wait ?? ((until) => pause(pollMs, until))
    yield* looks(options.load, wait, stop.signal)
  } finally {
    signal?.removeEventListener('abort', abort)
    abort()
  }
}

async function* looks(
  load: ReadPackedTranscriptOptions['load'],
  wait: (signal: AbortSignal) => Promise<void>,
  signal: AbortSignal,
): AsyncGenerator<TranscriptUpdate, void> {
  const view = new TranscriptView()
  let transcript = emptyTranscript
  let last = -1
  while (!signal.aborted) {
    // Listening begins before the look: what comes between the two is not slept through.
    const woken = wait(signal)
    woken.catch(() => {})
    const { rows, done } = await load(last)
    if (signal.aborted) return
    last = rows.at(-1)?.index ?? last
    const items = itemsFromChunks(rows)
    transcript = applyItems(transcript, items)
    if (done && transcript.status === 'streaming') {
      const { ignoring: _, ...own } = transcript
      items.push(done)
      transcript = applyItems(own, [done])
    }
    const update = view.show(transcript, items)
    if (update) yield update
    if (transcript.status !== 'streaming') return
    await woken
  }
}
