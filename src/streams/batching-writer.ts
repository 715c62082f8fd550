/**
 * The batching every `TranscriptWriter` shares: one batch under way, the next is what came meanwhile.
 *
 * A slow or absent receiver makes batches larger, not more of them; neighbouring deltas merge as they
 * wait; and past `maxPendingChars` items are let go and the next batch is asked to stand for everything.
 * How a batch is delivered, and what is worth another try, is `send`'s business.
 */
import { AiDbError, toError } from '../errors.js'
import { Acknowledgements } from './acknowledgements.js'
import { itemChars, pushCoalesced, type DoneItem, type TranscriptItem } from './transcript-items.js'
import type { BatchingOptions } from './batch.js'
import type { TranscriptWriter } from './transcript-writer.js'

/** As long as a cutover should take; a slower one holds nothing back for longer. */
const DEFAULT_HOLD_MS = 250

export class BatchingWriter implements TranscriptWriter {
  #pending: TranscriptItem[] = []
  #pendingChars = 0
  #incomplete = false
  #written = false
  #done: DoneItem | undefined
  #ending = false
  #ended = false
  #failure: AiDbError | undefined
  #running = false
  #nextStart = 0
  /** No batch before then, unless it is urgent. */
  #heldUntil = 0
  /** Set while a batch should leave without lingering. */
  #urgent = false
  /** Ends the wait before a batch. */
  #wake = () => {}
  readonly #items = new Acknowledgements()
  readonly #stop = new AbortController()
  readonly #options: BatchingOptions

  constructor(options: BatchingOptions) {
    this.#options = options
  }

  get written(): boolean {
    return this.#written
  }

  append(item: TranscriptItem): void {
    if (!this.#ending && this.#failure === undefined) this.#add(item)
  }

  hold(): void {
    this.#heldUntil = Date.now() + (this.#options.holdMs ?? DEFAULT_HOLD_MS)
  }

  async flush(): Promise<void> {
    if (this.#failure) throw this.#failure
    if (this.#ended || this.#items.complete) return
    this.#hurry()
    await this.#items.arrival(this.#options.giveUpMs)
  }

  async end(item: DoneItem): Promise<void> {
    if (this.#failure) throw this.#failure
    if (!this.#ending) {
      this.#ending = true
      if (this.#options.skipIfUnsent && !this.#written) return this.#discard()
      this.#done = item
      this.#items.taken += 1
    }
    if (this.#ended) return
    this.#hurry()
    this.#start()
    try {
      await this.#items.arrival(this.#options.giveUpMs)
    } catch (error) {
      this.#fail(error as AiDbError)
      throw error
    }
  }

  abort(): void {
    if (this.#ended || this.#failure) return
    this.#failure = new AiDbError('CANCELLED', 'The transcript writer was aborted.')
    this.#discard()
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.abort()
    return Promise.resolve()
  }

  #add(item: TranscriptItem): void {
    const { maxPendingChars, maxBatchChars } = this.#options
    this.#items.taken += 1
    if (!this.#incomplete) {
      pushCoalesced(this.#pending, item)
      this.#pendingChars += itemChars(item)
    }
    if (this.#pendingChars > maxPendingChars) {
      this.#clear()
      this.#incomplete = true
    } else if (this.#pendingChars >= maxBatchChars) this.#hurry()
    this.#start()
  }

  #start(): void {
    if (!this.#running) void this.#run()
  }

  async #run(): Promise<void> {
    this.#running = true
    try {
      while (!this.#items.complete) {
        await this.#untilDue()
        if (this.#stop.signal.aborted) return
        await this.#sendOne()
      }
      this.#ended = this.#ending
    } catch (thrown) {
      this.#fail(asAiDbError(thrown))
    } finally {
      this.#running = false
    }
  }

  async #untilDue(): Promise<void> {
    const now = Date.now()
    const due = this.#nextStart > now ? this.#nextStart : now + this.#options.lingerMs
    while (!this.#urgent && !this.#items.awaited && !this.#stop.signal.aborted) {
      const untilDue = Math.max(due, this.#heldUntil) - Date.now()
      if (untilDue <= 0) return
      await new Promise<void>((resolve) => {
        this.#wake = () => {
          clearTimeout(timer)
          resolve()
        }
        const timer = setTimeout(this.#wake, untilDue)
      })
    }
  }

  async #sendOne(): Promise<void> {
    this.#nextStart = Date.now() + this.#options.minGapMs
    this.#urgent = false
    this.#written = true
    const incomplete = this.#incomplete
    this.#incomplete = false
    const items = this.#takeItems()
    const drained = this.#pending.length === 0
    const last = drained && this.#done !== undefined
    // What stays behind has merged with what was taken: only a batch that took all can be counted.
    let upTo = drained ? this.#items.taken : this.#items.upTo
    await this.#options.send({
      items: last && this.#done ? [...items, this.#done] : items,
      incomplete,
      last,
      signal: this.#stop.signal,
      supersede: () => {
        this.#clear()
        this.#incomplete = false
        upTo = this.#items.taken - (this.#done && !last ? 1 : 0)
      },
    })
    this.#items.advance(upTo)
    if (this.#pending.length > 0 && this.#pendingChars >= this.#options.maxBatchChars) this.#hurry()
  }

  #takeItems(): TranscriptItem[] {
    let chars = 0
    const end = this.#pending.findIndex((item) => {
      chars += itemChars(item)
      return chars >= this.#options.maxBatchChars
    })
    const taken = this.#pending.splice(0, end < 0 ? this.#pending.length : end + 1)
    this.#pendingChars = Math.max(0, this.#pendingChars - chars)
    return taken
  }

  /** Cuts the wait before the next batch short. */
  #hurry(): void {
    this.#urgent = true
    this.#wake()
  }

  #clear(): void {
    this.#pending = []
    this.#pendingChars = 0
  }

  #fail(error: AiDbError): void {
    if (this.#failure || this.#ended) return
    this.#failure = error
    this.#discard()
    this.#options.onError?.(error)
  }

  /** Lets go of what waits, stops what is under way. */
  #discard(): void {
    this.#clear()
    this.#ended = this.#failure === undefined
    this.#stop.abort()
    this.#wake()
    this.#items.dismiss(this.#failure)
  }
}

function asAiDbError(thrown: unknown): AiDbError {
  if (thrown instanceof AiDbError) return thrown
  const cause = toError(thrown)
  return new AiDbError('STREAM_FAILED', `The transcript was refused: ${cause.message}`, { cause })
}
