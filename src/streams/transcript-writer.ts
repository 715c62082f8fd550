/**
 * What a run writes its live transcript to.
 *
 * `append` never waits and never throws: live text is a hint, and a run does not fail because nobody
 * can watch it. Not promised, therefore: that an appended item arrives. Who needs that awaits
 * `flush()`, which, unlike the stream client's own producer, rejects when a batch was refused.
 */
import type { DoneItem, TranscriptItem } from './transcript-items.js'

export interface TranscriptWriter {
  /** Takes an item, at once. A writer that was refused, ended or aborted drops it. */
  append(item: TranscriptItem): void
  /**
   * Resolves when everything appended so far is acknowledged. Rejects FENCED when another attempt
   * writes, STREAM_FAILED when it was not acknowledged in time; in the latter case the writer goes on.
   */
  flush(): Promise<void>
  /** The end is near: what is left waits for it a while, to go in one batch with it or not at all. */
  hold(): void
  /**
   * Appends the last item, waits as `flush` does, and closes. A first attempt that has sent nothing
   * yet sends nothing at all: the row tells the reader everything.
   */
  end(item: DoneItem): Promise<void>
  /** Whether anything was sent. */
  readonly written: boolean
  /** Stops at once; what was not acknowledged may be lost. */
  abort(): void
  [Symbol.asyncDispose](): Promise<void>
}
