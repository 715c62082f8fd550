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
  let queue: Transaction[] = []
  let queued = 0
  const jobs: { run(): void; refuse(): void }[] = []
  const waiting: (() => void)[] = []
  let running: Promise<void> | undefined
  let stopped = false

  const nextBatch = () => {
    let changes = 0
    let count = 0
    while (count < queue.length && (count === 0 || changes < MAX_BATCH_CHANGES)) {
      changes += queue[count]!.changes.length
      count += 1
    }
    queued -= changes
    return queue.splice(0, count)
  }
  const letGoOn = () => {
    if (queued > MAX_QUEUED_CHANGES) return
    for (const resume of waiting.splice(0)) resume()
  }
  const run = async () => {
    while (!stopped && (jobs.length > 0 || queue.length > 0)) {
      for (const job of jobs.splice(0)) job.run()
      const batch = nextBatch()
      letGoOn()
      if (batch.length > 0) await apply(batch)
    }
    running = undefined
  }
  // In a microtask, so that transactions that arrived in one packet are one batch.
  const start = () => void (running ??= Promise.resolve().then(run))

  return {
    push(transaction) {
      if (stopped) return
      queue.push(transaction)
      queued += transaction.changes.length
      start()
      if (queued > MAX_QUEUED_CHANGES) {
        return new Promise<void>((resolve) => waiting.push(resolve))
      }
    },
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
        if (stopped) return refuse()
        jobs.push({ run, refuse })
        start()
      })
    },
    clear() {
      queue = []
      queued = 0
      letGoOn()
    },
    async stop() {
      stopped = true
      queue = []
      queued = 0
      for (const job of jobs.splice(0)) job.refuse()
      letGoOn()
      await running
    },
  }
}
