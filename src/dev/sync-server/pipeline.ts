/**
 * Transactions, one batch after the other, in commit order. What must not happen in the middle of a
 * batch (a new shape joins) is a job that runs between two of them: a batch was evaluated for the
 * shapes there were, and is shown to all of them in one step.
 *
 * A full queue makes `push` return a promise, and replication reads no further until it resolves.
 */
import { notReady } from './request-error.js'
import type { Transaction } from './replication.js'

export interface Pipeline {
  push(transaction: Transaction): Promise<void> | void
  between<T>(job: () => T): Promise<T>
  /** Forgets what was not begun. */
  clear(): void
  /** Resolves when the present batch is through; nothing is begun after it. */
  stop(): Promise<void>
}

const MAX_BATCH_CHANGES = 5_000
const MAX_QUEUED_CHANGES = 20_000

export function createPipeline(
  apply: (transactions: readonly Transaction[]) => Promise<void>,
): Pipeline {
  return new BatchPipeline(apply)
}

interface Job {
  run(): void
  refuse(): void
}

class BatchPipeline implements Pipeline {
  #queue: Transaction[] = []
  #queuedChanges = 0
  #running: Promise<void> | undefined
  #stopped = false
  readonly #jobs: Job[] = []
  readonly #held: (() => void)[] = []
  readonly #apply: (transactions: readonly Transaction[]) => Promise<void>

  constructor(apply: (transactions: readonly Transaction[]) => Promise<void>) {
    this.#apply = apply
  }

  // A field, as replication calls it without its object.
  readonly push = (transaction: Transaction): Promise<void> | void => {
    if (this.#stopped) return
    this.#queue.push(transaction)
    this.#queuedChanges += transaction.changes.length
    this.#start()
    if (this.#queuedChanges <= MAX_QUEUED_CHANGES) return
    return new Promise<void>((resolve) => this.#held.push(resolve))
  }

  between<T>(job: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const refuse = () => reject(notReady('The sync server is stopping'))
      const run = () => {
        try {
          resolve(job())
        } catch (thrown) {
          reject(thrown)
        }
      }
      if (this.#stopped) return refuse()
      this.#jobs.push({ run, refuse })
      this.#start()
    })
  }

  clear(): void {
    this.#queue = []
    this.#queuedChanges = 0
    this.#letGoOn()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.clear()
    for (const job of this.#jobs.splice(0)) job.refuse()
    await this.#running
  }

  /** In a microtask, so that transactions that arrived in one packet are one batch. */
  #start(): void {
    this.#running ??= Promise.resolve().then(() => this.#run())
  }

  async #run(): Promise<void> {
    while (!this.#stopped && (this.#jobs.length > 0 || this.#queue.length > 0)) {
      for (const job of this.#jobs.splice(0)) job.run()
      const batch = this.#nextBatch()
      this.#letGoOn()
      if (batch.length > 0) await this.#apply(batch)
    }
    this.#running = undefined
  }

  #nextBatch(): Transaction[] {
    let changes = 0
    let count = 0
    while (count < this.#queue.length && (count === 0 || changes < MAX_BATCH_CHANGES)) {
      changes += this.#queue[count]!.changes.length
      count += 1
    }
    this.#queuedChanges -= changes
    return this.#queue.splice(0, count)
  }

  #letGoOn(): void {
    if (this.#queuedChanges > MAX_QUEUED_CHANGES) return
    for (const resume of this.#held.splice(0)) resume()
  }
}
