/**
 * Waiting for a row to be settled by somebody else: another tab, another server, a person.
 *
 * It waits through whatever the collection goes through: a refetch, a failure of its sync (which is started
 * again), the row's absence for a while. It ends with the result, or with an error: the row was cancelled or
 * deleted, the time is up, the signal aborted.
 */
import { AiDbError, toError } from '../errors.js'
import { requireNumber } from '../internal/options.js'
import { watchRow, type WatchableCollection } from '../internal/row-watch.js'
import { requireOwnCopy } from '../internal/source-collections.js'

export interface WaitForToolResultOptions {
  /** Longest wait, in ms. @default none */
  timeout?: number | undefined
  /** Ends the wait with its reason. */
  signal?: AbortSignal | undefined
}

/** What is asked of the collection: any TanStack DB collection has it. */
export interface ReadableCollection<
  TRow,
  TKey extends string | number,
> extends WatchableCollection {
  get(key: TKey): TRow | undefined
}

/** A row may be gone while its collection is synced afresh. Gone for so long from a ready one, it was deleted. */
const GONE_MS = 5_000

/**
 * Resolves with `getResult(row)` once `isComplete(row)`.
 *
 * @param id The row's key.
 * @throws what `getResult` throws; AiDbError TIMEOUT; CANCELLED when the row's status says so and
 *   `isComplete` does not; NOT_FOUND when it was deleted; the signal's reason.
 */
export async function waitForToolResult<
  TRow extends object,
  TResult,
  TKey extends string | number = string,
>(
  collection: ReadableCollection<TRow, TKey>,
  id: TKey,
  isComplete: (row: NoInfer<TRow>) => boolean,
  getResult: (row: NoInfer<TRow>) => TResult | Promise<TResult>,
  options: WaitForToolResultOptions = {},
): Promise<TResult> {
  requireOwnCopy('waitForToolResult()', 'collection', collection)
  if (options.timeout !== undefined)
    requireNumber('waitForToolResult()', 'timeout', options.timeout)
  const row = await settledRow(collection, id, isComplete, options)
  try {
    return await getResult(row)
  } catch (thrown) {
    // The RFC's examples reject with the row's error text; what reads this wants an Error.
    throw toError(thrown)
  }
}

function settledRow<TRow extends object, TKey extends string | number>(
  collection: ReadableCollection<TRow, TKey>,
  id: TKey,
  isComplete: (row: TRow) => boolean,
  { timeout, signal }: WaitForToolResultOptions,
): Promise<TRow> {
  return new Promise((resolve, reject) => {
    const wait = new Wait(resolve, reject)
    const look = () => {
      try {
        const row = readRow(collection, id)
        if (row !== undefined || collection.status === 'ready')
          wait.present(row !== undefined, () => wait.fail(deleted(id)))
        if (row === undefined) return
        if (isComplete(row)) wait.done(row)
        else if ((row as { status?: unknown }).status === 'cancelled') wait.fail(cancelled(id, row))
      } catch (error) {
        wait.fail(toError(error))
      }
    }
    if (signal?.aborted) return reject(signal.reason as Error)
    wait.onEnd(watchRow(collection, id, look))
    if (timeout !== undefined) {
      const timer = setTimeout(() => wait.fail(tookTooLong(id, timeout)), timeout)
      wait.onEnd(() => clearTimeout(timer))
    }
    if (signal) {
      const onAbort = () => wait.fail(signal.reason as Error)
      signal.addEventListener('abort', onAbort, { once: true })
      wait.onEnd(() => signal.removeEventListener('abort', onAbort))
    }
    look()
  })
}

/** A collection in error answers nothing; it is being started again. */
function readRow<TRow, TKey extends string | number>(
  collection: ReadableCollection<TRow, TKey>,
  id: TKey,
): TRow | undefined {
  return collection.status === 'error' ? undefined : collection.get(id)
}

/** One wait: ends once, and takes everything it began with it. */
class Wait<T> {
  readonly #resolve: (value: T) => void
  readonly #reject: (error: Error) => void
  readonly #cleanups: (() => void)[] = []
  #over = false
  #seen = false
  #absence: ReturnType<typeof setTimeout> | undefined

  constructor(resolve: (value: T) => void, reject: (error: Error) => void) {
    this.#resolve = resolve
    this.#reject = reject
  }

  onEnd(cleanup: () => void): void {
    if (this.#over) cleanup()
    else this.#cleanups.push(cleanup)
  }

  /** Seen once and then absent for long enough, `onGone` is called. */
  present(present: boolean, onGone: () => void): void {
    this.#seen ||= present
    if (present || !this.#seen) {
      clearTimeout(this.#absence)
      this.#absence = undefined
    } else if (!this.#over) this.#absence ??= setTimeout(onGone, GONE_MS)
  }

  done(value: T): void {
    if (this.#end()) this.#resolve(value)
  }

  fail(error: Error): void {
    if (this.#end()) this.#reject(error)
  }

  #end(): boolean {
    if (this.#over) return false
    this.#over = true
    clearTimeout(this.#absence)
    for (const cleanup of this.#cleanups) cleanup()
    return true
  }
}

/** Nobody settled the call in time. */
export function tookTooLong(id: string | number, timeout: number): AiDbError {
  return new AiDbError(
    'TIMEOUT',
    `Tool call ${id} was not settled within ${timeout} ms. Does anything execute its tool? Raise timeout if it needs longer.`,
  )
}

function cancelled(id: string | number, row: object): AiDbError {
  const { cancelReason } = row as { cancelReason?: unknown }
  const why = typeof cancelReason === 'string' ? ` (${cancelReason})` : ''
  return new AiDbError('CANCELLED', `Tool call ${id} was cancelled${why}.`)
}

function deleted(id: string | number): AiDbError {
  return new AiDbError(
    'NOT_FOUND',
    `The row of tool call ${id} is gone: it was deleted, or its collection does not sync it.`,
    { field: 'id' },
  )
}
