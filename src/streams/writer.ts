/**
 * Writes one attempt's live transcript to its generation's durable stream.
 *
 * The stream is made by the first batch, not before: a turn over within `lingerMs` costs no request.
 * Producer-Id is the generation, Producer-Epoch the claim's attempt (never minted here), Producer-Seq
 * counts batches; so a deposed worker's bytes are refused and a repeated request adds nothing.
 *
 * The server may be down, restart or lose its data: a batch is repeated until it is acknowledged, while
 * what comes meanwhile gathers; a stream that is gone is written anew from `restore()`. Nothing here
 * fails the run. What stops a writer for good is a fence, or a server that says no.
 */
import { AiDbError, FencedError } from '../errors.js'
import type { Batch } from './batch.js'
import { BatchingWriter } from './batching-writer.js'
import { backoffMs, pause } from './backoff.js'
import { generationStreamUrl, type StreamAddress } from './stream-address.js'
import {
  appendToStream,
  createStream,
  type StreamAnswer,
  type StreamTarget,
} from './stream-requests.js'
import { coalesce, type TranscriptItem } from './transcript-items.js'
import type { TranscriptWriter } from './transcript-writer.js'

export type { TranscriptWriter } from './transcript-writer.js'

export interface StreamWriterOptions extends StreamAddress {
  /** The claim's attempt. Its first item must be an `attempt` item. */
  attempt: number
  /**
   * Everything the transcript holds, appended items included, beginning with an `attempt` item:
   * `transcriptToItems` of the fold. Asked when the server has lost the stream.
   */
  restore: () => readonly TranscriptItem[]
  /** From the first item after a silence to its batch, in ms. @default 15 */
  lingerMs?: number
  /** From the start of one batch to the start of the next at least, in ms. @default 40 */
  minGapMs?: number
  /** About the largest request body, in characters. @default 262144 */
  maxBatchBytes?: number
  /** Beyond this, waiting items are let go and `restore()` stands in, in characters. @default 1048576 */
  maxPendingBytes?: number
  /** How long after its last use the server keeps the stream. @default 86400 */
  ttlSeconds?: number
  /** How long `hold` holds at most, in ms. @default 250 */
  holdMs?: number
  /** How long `flush` and `end` wait for the server, in ms. @default 10000 */
  giveUpMs?: number
  headers?: Readonly<Record<string, string>>
  fetch?: typeof fetch
  /** Called once, with what stopped the writer: a FencedError, or STREAM_FAILED. */
  onError?: (error: AiDbError) => void
}

/**
 * Tuned at 50 streams of 50 tokens a second, writers and readers in one process, the memory store's
 * server in another, two cores: there every request costs latency elsewhere. A gap of 40 makes three
 * quarters of the requests that 20 does and has the lower p95; 80 halves them again and has 1.7 times
 * the p95. A linger below 15 only sends more first batches of one token.
 */
const DEFAULTS = {
  lingerMs: 15,
  minGapMs: 40,
  maxBatchBytes: 256 * 1024,
  maxPendingBytes: 1024 * 1024,
  ttlSeconds: 86_400,
  giveUpMs: 10_000,
}

const FIRST_BACKOFF_MS = 50
const LONGEST_BACKOFF_MS = 2_000
/** How often one batch is rewritten for a server that forgot the stream. */
const MAX_RESTORES = 10

export function createStreamWriter(options: StreamWriterOptions): TranscriptWriter {
  if (!URL.canParse(String(options.streamsUrl))) {
    const fact = `streamsUrl is no absolute URL: ${JSON.stringify(options.streamsUrl)}.`
    const cure = 'Give the base URL of the stream server, such as http://localhost:4437.'
    throw new AiDbError('INVALID_OPTION', `${fact} ${cure}`, { field: 'streamsUrl' })
  }
  const resolved = resolveOptions(options)
  const delivery = new StreamDelivery(resolved)
  return new BatchingWriter({
    lingerMs: resolved.lingerMs,
    minGapMs: resolved.minGapMs,
    maxBatchChars: resolved.maxBatchBytes,
    maxPendingChars: resolved.maxPendingBytes,
    holdMs: options.holdMs,
    giveUpMs: resolved.giveUpMs,
    // A later attempt finds its predecessor's stream, which has to be closed.
    skipIfUnsent: resolved.attempt <= 1,
    send: (batch) => delivery.send(batch),
    onError: resolved.onError,
  })
}

type ResolvedOptions = StreamWriterOptions & typeof DEFAULTS

/** An option given as undefined is one not given. */
function resolveOptions(options: StreamWriterOptions): ResolvedOptions {
  const given = Object.entries(options).filter(([, value]) => value !== undefined)
  return { ...DEFAULTS, ...Object.fromEntries(given) } as ResolvedOptions
}

class StreamDelivery {
  readonly #options: StreamWriterOptions
  readonly #target: StreamTarget
  #seq = 0
  #begun = false

  constructor(options: ResolvedOptions) {
    this.#options = options
    this.#target = {
      url: generationStreamUrl(options),
      producerId: options.generationId,
      epoch: options.attempt,
      ttlSeconds: options.ttlSeconds,
      headers: options.headers ?? {},
      fetch: options.fetch ?? fetch,
    }
  }

  async send(batch: Batch): Promise<void> {
    let items = batch.incomplete ? this.#restored(batch) : batch.items
    if (!this.#begun && (await this.#begin(items, batch))) return
    for (let tries = 0; ; tries += 1) {
      const posted = { seq: this.#seq, body: JSON.stringify(items), close: batch.last }
      const answer = await this.#ask(batch, () =>
        appendToStream(this.#target, posted, batch.signal),
      )
      if (answer.kind === 'landed') break
      if (answer.kind === 'missing' && batch.last && !this.#begun) return
      if (tries > MAX_RESTORES) throw refused('it keeps losing the stream')
      if (answer.kind === 'missing') await this.#create(batch)
      this.#seq = answer.kind === 'out-of-step' ? answer.expectedSeq : 0
      items = this.#restored(batch)
    }
    this.#begun = true
    this.#seq += 1
  }

  async #create(batch: Batch): Promise<void> {
    await this.#ask(batch, () => createStream(this.#target, [], batch.signal))
  }

  /**
   * The first batch of a first attempt creates the stream and lies in it by one request. Only there: a
   * PUT leaves no epoch behind, and below the first attempt there is nobody to fence. Repeating the
   * batch, when the stream turns out to exist, is harmless as it begins with its `attempt` item.
   */
  async #begin(items: readonly TranscriptItem[], batch: Batch): Promise<boolean> {
    if (this.#target.epoch > 1 || batch.last || items[0]?.type !== 'attempt') return false
    const answer = await this.#ask(batch, () => createStream(this.#target, items, batch.signal))
    this.#begun = true
    return answer.kind === 'landed'
  }

  /** Asks until the server answers; throws what no repetition can change. */
  async #ask(batch: Batch, ask: () => Promise<StreamAnswer>): Promise<StreamAnswer> {
    for (let tries = 0; ; tries += 1) {
      batch.signal.throwIfAborted()
      const answer = await ask()
      if (answer.kind === 'fenced') {
        throw new FencedError(
          `The stream of generation ${this.#target.producerId}`,
          this.#target.epoch,
        )
      }
      if (answer.kind === 'refused') throw refused(answer.reason)
      if (answer.kind !== 'unreachable') return answer
      await pause(backoffMs(tries, FIRST_BACKOFF_MS, LONGEST_BACKOFF_MS), batch.signal)
    }
  }

  /** Everything so far in the batch's place. Its `attempt` item makes it right on top of anything. */
  #restored(batch: Batch): TranscriptItem[] {
    batch.supersede()
    const items = coalesce(this.#options.restore()).filter((item) => item.type !== 'done')
    return batch.last ? [...items, ...batch.items.slice(-1)] : items
  }
}

function refused(reason: string): AiDbError {
  const cure = "Check its URL and the writer's headers."
  return new AiDbError(
    'STREAM_FAILED',
    `The stream server refused a transcript: ${reason}. ${cure}`,
  )
}
