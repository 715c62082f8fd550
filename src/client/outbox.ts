/**
 * Writes on their way to the handler: one at a time, in order, each until the server has said yes or no.
 *
 * A network failure, 5xx, 429 and 401 are tried again, jittered, and at once when the connection is woken; any
 * other refusal ends that write alone. The next write does not wait for the last one's echo, only for its
 * answer. That a request whose answer was lost is sent again is harmless: every write has an id.
 *
 * Bounded: what does not fit is refused with OUTBOX_FULL, not forgotten.
 */
import { AiDbError } from '../errors.js'
import { jittered } from '../internal/abort.js'
import type { ShapeHealth } from '../electric/lasting-fetch.js'
import type { WriteAnswer } from './handler-requests.js'
import type { OutboxShelf, ShelvedWrite } from './outbox-shelf.js'

export type WrittenBody = Record<string, unknown> & { txid: number }

export interface OutboxOptions<Write> {
  ask(write: Write, signal: AbortSignal): Promise<WriteAnswer>
  health: ShapeHealth
  shelf: OutboxShelf<Write>
}

interface Entry<Write> extends ShelvedWrite<Write> {
  resolve(body: WrittenBody): void
  reject(error: AiDbError): void
}

const MAX_WRITES = 200
const MAX_CHARS = 2_000_000
const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 10_000

export class Outbox<Write> {
  readonly #options: OutboxOptions<Write>
  readonly #stop = new AbortController()
  #entries: Entry<Write>[] = []
  #sending = false

  constructor(options: OutboxOptions<Write>) {
    this.#options = options
  }

  /** Resolves with the server's yes, rejects with its no. */
  add(write: Write): Promise<WrittenBody> {
    if (this.#stop.signal.aborted) return Promise.reject(closedError())
    const chars = JSON.stringify(this.#entries.map((entry) => entry.write)).length
    if (this.#entries.length >= MAX_WRITES || chars > MAX_CHARS) {
      return Promise.reject(
        new AiDbError(
          'OUTBOX_FULL',
          `${this.#entries.length} writes wait for the network already. Try again when they have gone out.`,
        ),
      )
    }
    return this.#enter({ at: Date.now(), write })
  }

  /** Takes over what closed tabs have left; `show` gets each write and its outcome. */
  async takeOver(show: (write: Write, outcome: Promise<WrittenBody>) => void): Promise<void> {
    await this.#options.shelf.takeOver((left) => {
      if (this.#stop.signal.aborted) return
      for (const shelved of left) show(shelved.write, this.#enter(shelved))
    })
  }

  /** Unsent writes stay on the shelf. */
  close(): void {
    this.#stop.abort()
    for (const entry of this.#entries) entry.reject(closedError())
    this.#entries = []
    this.#options.shelf.close()
  }

  #enter({ at, write }: ShelvedWrite<Write>): Promise<WrittenBody> {
    const outcome = new Promise<WrittenBody>((resolve, reject) => {
      const entry = { at, write, resolve, reject }
      // Older ones of another tab go first, except before what is under way.
      const first = this.#sending ? 1 : 0
      const place = this.#entries.findIndex((other, index) => index >= first && other.at > at)
      if (place < 0) this.#entries.push(entry)
      else this.#entries.splice(place, 0, entry)
    })
    this.#shelve()
    void this.#send()
    return outcome
  }

  #shelve(): void {
    this.#options.shelf.put(this.#entries.map(({ at, write }) => ({ at, write })))
  }

  async #send(): Promise<void> {
    if (this.#sending) return
    this.#sending = true
    const { ask, health } = this.#options
    const { signal } = this.#stop
    for (let tries = 0; this.#entries.length > 0 && !signal.aborted;) {
      const entry = this.#entries[0]!
      const answer = await ask(entry.write, signal)
      if (signal.aborted) return
      if (answer.kind === 'passing') {
        health.failed(answer.error)
        const backoff = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(tries, 10))
        await health.pause(Math.max(answer.retryAfterMs, jittered(backoff)), signal)
        tries += 1
        continue
      }
      tries = 0
      health.reached()
      this.#entries.shift()
      this.#shelve()
      if (answer.kind === 'written') entry.resolve(answer.body)
      else entry.reject(answer.error)
    }
    this.#sending = false
  }
}

export function closedError(): AiDbError {
  return new AiDbError(
    'CANCELLED',
    'The session was closed before this was confirmed. A write that was not sent yet is sent when the session is opened again.',
  )
}
