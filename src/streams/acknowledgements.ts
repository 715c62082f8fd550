/** Who waits for which item: items are counted, and a waiter leaves when its count is acknowledged. */
import { AiDbError } from '../errors.js'

interface Waiter {
  upTo: number
  settle: (error?: AiDbError) => void
}

export class Acknowledgements {
  /** Items taken so far. */
  taken = 0
  #upTo = 0
  readonly #waiters = new Set<Waiter>()

  get upTo(): number {
    return this.#upTo
  }

  get complete(): boolean {
    return this.#upTo >= this.taken
  }

  /** Whether anyone waits. */
  get awaited(): boolean {
    return this.#waiters.size > 0
  }

  advance(upTo: number): void {
    this.#upTo = upTo
    for (const waiter of this.#waiters) if (waiter.upTo <= upTo) waiter.settle()
  }

  /** Lets everyone go who still waits. */
  dismiss(error: AiDbError | undefined): void {
    for (const waiter of this.#waiters) waiter.settle(error)
  }

  /** Resolves when all taken so far is acknowledged; rejects STREAM_FAILED after `giveUpMs`. */
  arrival(giveUpMs: number): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      const waiter: Waiter = {
        upTo: this.taken,
        settle: (error) => {
          clearTimeout(timer)
          this.#waiters.delete(waiter)
          if (error) reject(error)
          else resolve()
        },
      }
      const timer = setTimeout(() => {
        const fact = `The transcript was not acknowledged within ${giveUpMs} ms.`
        const cure = 'The rows are complete without it; check that its receiver is reachable.'
        waiter.settle(new AiDbError('STREAM_FAILED', `${fact} ${cure}`))
      }, giveUpMs)
      this.#waiters.add(waiter)
    })
  }
}
