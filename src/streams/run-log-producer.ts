/**
 * Writes the log of one run: a batch is in the stream before `append` resolves, or it throws.
 *
 * One producer at a time. Producer-Id is the run, Producer-Epoch the host's: minted where the run is
 * claimed, never here, so a deposed producer cannot come back. Two of the same epoch are told apart by
 * the name each puts into its items: the second one is refused.
 */
import { AiDbError, FencedError } from '../errors.js'
import { backoffMs, pause } from './backoff.js'
import { logLost, readRunLog, type RunLogItem, type RunLogPlace } from './run-log.js'
import {
  appendToStream,
  createStream,
  type StreamAnswer,
  type StreamTarget,
} from './stream-requests.js'

const FIRST_BACKOFF_MS = 50
const LONGEST_BACKOFF_MS = 1_000

export class RunLogProducer<Chunk> {
  readonly #target: StreamTarget
  readonly #giveUpMs: number
  readonly #by = crypto.randomUUID().slice(0, 8)
  #work: Promise<unknown> = Promise.resolve()
  #begun = false
  #closed = false
  #at = ''
  #items = 0
  #batches = 0

  constructor(target: StreamTarget, giveUpMs: number) {
    this.#target = target
    this.#giveUpMs = giveUpMs
  }

  /** In the order of the calls, whether they are awaited or not. */
  append(chunks: readonly Chunk[]): Promise<RunLogPlace[]> {
    return this.#inTurn(() => this.#append(chunks))
  }

  /** A log that is not ours any more, or is gone, has nothing for us to close. */
  close(): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#closed) return
      await this.#begin()
      await this.#post('', true)
      this.#closed = true
    })
  }

  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const result = this.#work.then(work)
    this.#work = result.catch(() => undefined)
    return result
  }

  async #append(chunks: readonly Chunk[]): Promise<RunLogPlace[]> {
    if (chunks.length === 0) return []
    await this.#begin()
    const items = chunks.map((chunk, index): RunLogItem<Chunk> => {
      return { seq: this.#items + index + 1, by: this.#by, at: this.#at, chunk }
    })
    const answer = await this.#post(JSON.stringify(items), false)
    if (answer.kind === 'fenced' || this.#hasMoreThanOurs(answer)) throw this.#fenced()
    if (answer.kind !== 'landed') throw logLost(this.#target.producerId)
    // Taken already: by our own request, whose answer was lost, or by another producer of this epoch.
    if (answer.repeated && !(await this.#holds(items.at(-1)!))) throw this.#fenced()
    this.#items += items.length
    this.#batches += 1
    this.#at = answer.next ?? this.#at
    return items.map(({ seq, by, at }) => ({ seq, by, at }))
  }

  /** The stream exists afterwards, and what another producer left in it is counted. */
  async #begin(): Promise<void> {
    if (this.#begun) return
    const answer = await this.#ask((signal) => createStream(this.#target, [], signal))
    if (answer.kind === 'landed') this.#at = answer.next ?? ''
    else {
      const last = (await readRunLog<Chunk>(this.#target)).at(-1)
      this.#items = last?.seq ?? 0
      // Where the last batch began: a place before ours, which is all that is promised of it.
      this.#at = last?.at ?? ''
    }
    this.#begun = true
  }

  async #post(body: string, close: boolean): Promise<StreamAnswer> {
    const batch = { seq: this.#batches, body, close }
    return this.#ask((signal) => appendToStream(this.#target, batch, signal))
  }

  #hasMoreThanOurs(answer: StreamAnswer): boolean {
    return answer.kind === 'out-of-step' && answer.expectedSeq > this.#batches
  }

  async #holds(item: RunLogItem<Chunk>): Promise<boolean> {
    const items = await readRunLog<Chunk>(this.#target)
    return items.some(({ seq, by }) => seq === item.seq && by === item.by)
  }

  async #ask(ask: (signal: AbortSignal) => Promise<StreamAnswer>): Promise<StreamAnswer> {
    const patience = AbortSignal.timeout(this.#giveUpMs)
    for (let tries = 0; ; tries += 1) {
      const answer = await ask(patience)
      if (answer.kind === 'refused') throw failed(`refused the log of a run: ${answer.reason}`)
      if (answer.kind !== 'unreachable') return answer
      if (patience.aborted) throw failed(`could not be reached: ${answer.reason}`)
      await pause(backoffMs(tries, FIRST_BACKOFF_MS, LONGEST_BACKOFF_MS), patience)
    }
  }

  #fenced(): FencedError {
    return new FencedError(`The log of run ${this.#target.producerId}`, this.#target.epoch)
  }
}

function failed(what: string): AiDbError {
  return new AiDbError(
    'STREAM_FAILED',
    `The stream server ${what}. Check that it runs, its URL, and the headers.`,
  )
}
