/** What `BatchingWriter` asks of the one who delivers its batches. */
import type { AiDbError } from '../errors.js'
import type { TranscriptItem } from './transcript-items.js'

export interface Batch {
  readonly items: readonly TranscriptItem[]
  /** Nothing follows: the receiver may be closed with it. */
  readonly last: boolean
  /** Items were let go for want of memory: this batch has to stand for everything appended so far. */
  readonly incomplete: boolean
  /** Aborts when the writer stops. */
  readonly signal: AbortSignal
  /** Call when sending everything appended so far in the batch's place: what pends is part of that. */
  supersede(): void
}

export interface BatchingOptions {
  /** From the first item after a silence to its batch. */
  lingerMs: number
  /** At least so long from the start of one batch to the start of the next. */
  minGapMs: number
  /** Pending items this large leave at once, and no batch is much larger. */
  maxBatchChars: number
  /** Beyond this nothing is kept: the next batch is `incomplete`. */
  maxPendingChars: number
  /** How long `hold` holds at most, in ms. @default 250 */
  holdMs?: number | undefined
  /** How long `flush` and `end` wait. */
  giveUpMs: number
  /** `end` before the first batch sends nothing. */
  skipIfUnsent: boolean
  /** Delivers one batch, trying again where that helps; a rejection stops the writer for good. */
  send: (batch: Batch) => Promise<void>
  /** Called once, with what stopped the writer. */
  onError?: ((error: AiDbError) => void) | undefined
}
