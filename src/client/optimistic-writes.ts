/**
 * A write as a person sees it: shown at once, one request, confirmed by one transaction's arrival in every
 * collection that showed it, taken back with the reason when it is refused.
 *
 * The optimistic rows stay until the synced ones are there, however long that takes, so nothing flickers
 * and a write that the server has confirmed is never taken back because sync is late.
 *
 * A refused write is taken back alone, whatever else touched the same row: each write has an answer of its
 * own from the server.
 */
import { createTransaction, type Collection, type Transaction } from '@tanstack/db'
import type { ElectricCollectionUtils } from '@tanstack/electric-db-collection'
import { AiDbError, toError } from '../errors.js'
import { closedError, type Outbox, type WrittenBody } from './outbox.js'
import type { Connection } from './connection.js'

/** A write under way. */
export interface SessionAction {
  /** Of the row it makes or moves. */
  id: string
  /** Resolves when the rows have come back by sync; rejects with an AiDbError, and nothing was written. */
  isPersisted: { promise: Promise<unknown> }
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- rows of any table
export type EchoingCollection = Collection<any, string, ElectricCollectionUtils>

export interface OptimisticVerbs<Write> {
  /** Changes the collections; what it cannot show it leaves. */
  show(write: Write): void
  /** Did the server's transaction touch anything? What touches nothing never echoes. @default yes */
  echoes?(write: Write, body: WrittenBody): boolean
}

/** After the first collection has seen a transaction, the others are waited for this long. */
const STRAGGLER_MS = 5_000
/** As long as a timer can be. */
const FOREVER_MS = 2 ** 31 - 1

export class OptimisticWrites<Write extends { id: string }> {
  readonly #outbox: Outbox<Write>
  readonly #verbs: OptimisticVerbs<Write>
  readonly #connection: Connection
  readonly #timers = new Set<ReturnType<typeof setTimeout>>()

  constructor(outbox: Outbox<Write>, verbs: OptimisticVerbs<Write>, connection: Connection) {
    this.#outbox = outbox
    this.#verbs = verbs
    this.#connection = connection
  }

  submit(write: Write): SessionAction {
    try {
      const plain = JSON.parse(JSON.stringify(write)) as Write
      const shown = this.#show(plain)
      return this.#settle(plain, shown, this.#outbox.add(plain))
    } catch (thrown) {
      return refusedAction(write.id, notAWrite(thrown))
    }
  }

  /** Shows and sends what closed tabs have left. */
  takeOver(): Promise<void> {
    return this.#outbox.takeOver((write, outcome) => {
      let shown = new ShownWrite()
      try {
        shown = this.#show(write)
      } catch {
        // Of another version of the library: what it becomes, its row will tell.
      }
      this.#settle(write, shown, outcome)
    })
  }

  close(): void {
    this.#outbox.close()
    for (const timer of this.#timers) clearTimeout(timer)
    this.#timers.clear()
  }

  #show(write: Write): ShownWrite {
    const shown = new ShownWrite()
    try {
      shown.transaction.mutate(() => this.#verbs.show(write))
    } catch (thrown) {
      shown.transaction.rollback({ isSecondaryRollback: true })
      throw thrown
    }
    return shown
  }

  #settle(write: Write, shown: ShownWrite, outcome: Promise<WrittenBody>): SessionAction {
    this.#connection.countWaiting(1)
    const confirmed = this.#confirm(write, shown, outcome)
    // Nobody has to listen.
    confirmed.catch(() => undefined)
    return { id: write.id, isPersisted: { promise: confirmed } }
  }

  async #confirm(write: Write, shown: ShownWrite, outcome: Promise<WrittenBody>): Promise<unknown> {
    try {
      const body = await outcome
      const echoes = this.#verbs.echoes?.(write, body) ?? true
      if (echoes) await this.#echo(body.txid, shown.collections)
      await shown.replace()
      return body
    } catch (thrown) {
      const error = thrown instanceof AiDbError ? thrown : closedError()
      shown.takeBack(error)
      throw error
    } finally {
      this.#connection.countWaiting(-1)
    }
  }

  /** Resolves when every collection has the transaction. A table that it did not touch holds up nobody. */
  async #echo(txid: number, collections: EchoingCollection[]): Promise<void> {
    if (collections.length === 0) return
    const seen = collections.map((one) => one.utils.awaitTxId(txid, FOREVER_MS))
    const all = Promise.all(seen)
    await Promise.race([all, Promise.race(seen).then(() => this.#patience(all))])
  }

  #patience(all: Promise<unknown>): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, STRAGGLER_MS)
      this.#timers.add(timer)
      const done = () => {
        clearTimeout(timer)
        this.#timers.delete(timer)
      }
      all.then(done, done)
    })
  }
}

/** What can be neither shown nor sent: content that is no text, metadata that is no JSON. */
function notAWrite(thrown: unknown): AiDbError {
  const { message } = toError(thrown)
  return new AiDbError(
    'INVALID_INPUT',
    `This cannot be written: ${message}. Pass text, and plain objects as metadata.`,
    { cause: thrown },
  )
}

/** A write that was never made. */
export function refusedAction(id: string, error: AiDbError): SessionAction {
  const promise = Promise.reject(error)
  // Nobody has to listen.
  promise.catch(() => undefined)
  return { id, isPersisted: { promise } }
}

/**
 * The optimistic rows of one write, in a transaction that is committed when the synced rows are there.
 *
 * Until then it is not even begun to be persisted, in TanStack DB's eyes: while one persists, all
 * synced changes of its collections are held back, and with a phone in a tunnel or a slow server a
 * person's own message would stop the answers and messages of others.
 */
class ShownWrite {
  readonly transaction: Transaction = createTransaction({
    autoCommit: false,
    mutationFn: () => Promise.resolve(),
  })

  constructor() {
    this.transaction.isPersisted.promise.catch(() => undefined)
  }

  get collections(): EchoingCollection[] {
    const all = this.transaction.mutations.map(({ collection }) => collection)
    return [...new Set(all)] as EchoingCollection[]
  }

  /** The synced rows are there. */
  async replace(): Promise<void> {
    await this.transaction.commit()
  }

  takeBack(error: Error): void {
    if (this.transaction.state !== 'pending') return
    this.transaction.error = { message: error.message, error: toError(error) }
    // 'Secondary': others that touched the same rows stay.
    this.transaction.rollback({ isSecondaryRollback: true })
  }
}
