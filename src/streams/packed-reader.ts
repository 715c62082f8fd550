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
  /** Resolves when another look may pay: a synced delta, a notification. @default waits `pollMs` */
  wait?: (signal: AbortSignal) => Promise<void>
  /** @default 250 */
  pollMs?: number
  /** Ends the iteration, without an error. */
  signal?: AbortSignal
}

export async function* readPackedTranscript(
  options: ReadPackedTranscriptOptions,
): AsyncGenerator<TranscriptUpdate, void> {
  const { load, pollMs = 250, signal = new AbortController().signal } = options
  const view = new TranscriptView()
  let transcript = emptyTranscript
  let last = -1
  while (!signal.aborted) {
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
    await (options.wait ? options.wait(signal) : pause(pollMs, signal))
  }
}
