/**
 * Writes a live transcript as rows, where there is no stream server: some words a row, not a token.
 *
 * `insert` carries the fence (`where attempt = …` on the generation) and throws FencedError when it
 * does not hold. It is repeated after any other failure, with the same rows and indexes, so it must
 * take rows that are there already for inserted (`on conflict (generation_id, index) do nothing`).
 */
import { AiDbError, FencedError, toError } from '../errors.js'
import type { Batch } from './batch.js'
import { BatchingWriter } from './batching-writer.js'
import { backoffMs, pause } from './backoff.js'
import { ChunkPacker, type PackedChunk } from './packed-chunks.js'
import type { TranscriptWriter } from './transcript-writer.js'

export { itemsFromChunks, type PackedChunk } from './packed-chunks.js'

export interface PackedWriterOptions {
  insert: (rows: PackedChunk[]) => Promise<void>
  /** One more than the index of the generation's last row; 0 if it has none. */
  startIndex: number
  /** How long items gather into a row, in ms. @default 250 */
  flushMs?: number
  /** Items this large are inserted at once, in characters. @default 4096 */
  maxChars?: number
  /** How long `flush` and `end` wait, and how long a failing insert is repeated, in ms. @default 10000 */
  giveUpMs?: number
  /** Called once, with what stopped the writer: a FencedError, or STREAM_FAILED. */
  onError?: (error: AiDbError) => void
}

const FIRST_BACKOFF_MS = 50
const LONGEST_BACKOFF_MS = 2_000

export function createPackedWriter(options: PackedWriterOptions): TranscriptWriter {
  const { insert, flushMs = 250, maxChars = 4_096, giveUpMs = 10_000 } = options
  const packer = new ChunkPacker(options.startIndex)
  return new BatchingWriter({
    lingerMs: flushMs,
    minGapMs: flushMs,
    maxBatchChars: maxChars,
    // An insert either succeeds or, within `giveUpMs`, stops the writer: nothing piles up.
    maxPendingChars: Number.POSITIVE_INFINITY,
    giveUpMs,
    skipIfUnsent: true,
    send: (batch) => insertUntilDone(insert, packer.pack(batch.items), batch, giveUpMs),
    onError: options.onError,
  })
}

async function insertUntilDone(
  insert: PackedWriterOptions['insert'],
  rows: PackedChunk[],
  batch: Batch,
  giveUpMs: number,
): Promise<void> {
  const deadline = Date.now() + giveUpMs
  for (let tries = 0; ; tries += 1) {
    batch.signal.throwIfAborted()
    try {
      return await insert(rows)
    } catch (thrown) {
      if (thrown instanceof FencedError) throw thrown
      const cause = toError(thrown)
      if (Date.now() >= deadline) {
        const fact = `Chunks could not be inserted: ${cause.message}`
        throw new AiDbError('STREAM_FAILED', `${fact}. The message will still be whole.`, { cause })
      }
      await pause(backoffMs(tries, FIRST_BACKOFF_MS, LONGEST_BACKOFF_MS), batch.signal)
    }
  }
}
