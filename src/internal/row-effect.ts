/**
 * Rows of a query as work: the library's only caller of TanStack DB's `createEffect`, and what that one does
 * not promise.
 *
 * - Once per row, although the effect says `enter` again (an optimistic touch gives enter, exit, enter; a
 *   refetch gives update). With `once: false` a row is offered at each of its changes, never twice at a time,
 *   and a claim decides.
 * - Only rows without pending local writes (`$synced`) are run; one that becomes so by an update is seen. The
 *   query needs no filter for it, and on backends that load subsets must have none: it would be sent to them.
 * - An effect disposes itself for good when its source fails. This one is made anew, with back-off, the failed
 *   collection restarted; what is running goes on meanwhile.
 * - Work begins in a microtask: what a handler writes while the effect is being made would be withheld.
 * - `dispose()` aborts what runs and waits for it. Do not await it inside of `run`.
 *
 * Not this: a lock. Two effects, in one process or two, both run the row unless something claims it.
 */
import { createEffect, type Context, type EffectQueryInput } from '@tanstack/db'
import { AiDbError, toError } from '../errors.js'
import { delay, jittered } from './abort.js'
import { clearFailedSource, sourcesOf } from './source-collections.js'

/** What became of a row: it is dealt with, not ours for now, or to be tried again soon. */
export type RowVerdict = 'done' | 'passed' | 'retry'

export interface RowEffectOptions<TContext extends Context, TRow extends object> {
  /** The primitive, for messages. */
  what: string
  query: EffectQueryInput<TContext>
  /** True: a row that was dealt with is never run again by this effect. */
  once: boolean
  /** Rows that may be run at the same time. */
  concurrency: number
  /** Deals with one row. What it throws goes to `onError`, and the row counts as dealt with. */
  run: (row: TRow, context: RowContext) => Promise<RowVerdict>
  /** A row's failure, or without a row the source's. */
  onError: (error: Error, row?: TRow) => void
}

export interface RowContext {
  readonly key: string | number
  /** Aborts when the effect is disposed. */
  readonly signal: AbortSignal
}

/** As TanStack DB's: disposing resolves when everything in flight has ended. */
export interface RowEffect {
  dispose(reason?: unknown): Promise<void>
  readonly disposed: boolean
}

type Key = string | number

/** So many finished rows are remembered; the oldest are forgotten first. A row's flicker is much younger. */
const REMEMBERED = 100_000
const RETRY_MS = { first: 100, most: 10_000 }

/** @throws AiDbError INVALID_OPTION when the query's collections are of another copy of @tanstack/db. */
export function createRowEffect<TContext extends Context, TRow extends object>(
  options: RowEffectOptions<TContext, TRow>,
): RowEffect {
  sourcesOf(options.what, options.query)
  const rows = new RowQueue(options)
  const abort = rows.abort
  const following = follow(options, rows)
  let disposing: Promise<void> | undefined
  const disposeOnce = async (reason: unknown) => {
    abort.abort(reason ?? new AiDbError('CANCELLED', `${options.what} was disposed.`))
    await Promise.all([following, rows.stop()])
  }
  return {
    dispose: (reason) => (disposing ??= disposeOnce(reason)),
    get disposed() {
      return abort.signal.aborted
    },
  }
}

/** Keeps an effect on the query until disposed. */
async function follow<TContext extends Context, TRow extends object>(
  options: RowEffectOptions<TContext, TRow>,
  rows: RowQueue<TContext, TRow>,
): Promise<void> {
  const { signal } = rows.abort
  for (let failures = 0; !signal.aborted; failures += 1) {
    const began = Date.now()
    const effect = openEffect(options, rows)
    const failed = await Promise.race([effect.failed, aborted(signal)])
    await effect.dispose()
    if (!failed || signal.aborted) return
    options.onError(failed)
    if (Date.now() - began > RETRY_MS.most) failures = 0
    await delay(jittered(backOffMs(failures)), signal)
    if (signal.aborted) return
    await Promise.all(sourcesOf(options.what, options.query).map(clearFailedSource))
  }
}

/** One effect, until its source fails. */
function openEffect<TContext extends Context, TRow extends object>(
  { query, what }: RowEffectOptions<TContext, TRow>,
  rows: RowQueue<TContext, TRow>,
) {
  let fail!: (error: Error) => void
  const failed = new Promise<Error>((resolve) => {
    fail = resolve
  })
  let dispose = () => Promise.resolve()
  try {
    // A source in error already would be waited for without a word.
    const broken = sourcesOf(what, query).find(({ status }) => status === 'error')
    if (broken) throw new Error(`Source collection '${broken.id}' is in error`)
    const effect = createEffect<TRow, Key>({
      query,
      onEnter: ({ key, value }) => rows.seen(key, value),
      onUpdate: ({ key, value }) => rows.seen(key, value),
      onExit: ({ key }) => rows.gone(key),
      onSourceError: (error) => {
        // At once: what has not begun would begin on a collection that takes no writes.
        rows.forgetPresent()
        fail(error)
      },
    })
    dispose = effect.dispose
  } catch (error) {
    fail(toError(error))
  }
  // What its cleaning up throws changes nothing: it is gone either way.
  return { failed, dispose: () => dispose().catch(() => undefined) }
}

/** The rows in the query's result that await their turn, and those being run. */
class RowQueue<TContext extends Context, TRow extends object> {
  readonly abort = new AbortController()
  readonly #options: RowEffectOptions<TContext, TRow>
  readonly #present = new Map<Key, TRow>()
  readonly #waiting = new Set<Key>()
  /** Each with a signal of its own: a shared one would gather a listener for each row. */
  readonly #running = new Map<Key, { ended: Promise<void>; abort: AbortController }>()
  /** Changed while being run: offered again afterwards. */
  readonly #changed = new Set<Key>()
  readonly #finished = new Set<Key>()
  readonly #retries = new Map<Key, number>()
  readonly #timers = new Set<ReturnType<typeof setTimeout>>()
  #pumping = false

  constructor(options: RowEffectOptions<TContext, TRow>) {
    this.#options = options
  }

  seen(key: Key, row: TRow): void {
    this.#present.set(key, row)
    this.#offer(key)
  }

  gone(key: Key): void {
    this.#present.delete(key)
    this.#waiting.delete(key)
    this.#changed.delete(key)
    this.#retries.delete(key)
  }

  /** The effect is made anew and will say again what there is. */
  forgetPresent(): void {
    for (const key of [...this.#present.keys()]) this.gone(key)
  }

  /** Nothing more begins; what runs is aborted, and waited for. */
  async stop(): Promise<void> {
    this.#waiting.clear()
    for (const timer of this.#timers) clearTimeout(timer)
    for (const { abort } of this.#running.values()) abort.abort(this.abort.signal.reason)
    while (this.#running.size > 0)
      await Promise.all([...this.#running.values()].map(({ ended }) => ended))
  }

  #offer(key: Key): void {
    const row = this.#present.get(key)
    if (this.abort.signal.aborted || row === undefined || this.#finished.has(key)) return
    if ((row as { $synced?: boolean }).$synced === false) return
    if (this.#running.has(key)) {
      this.#changed.add(key)
      return
    }
    this.#waiting.add(key)
    if (this.#pumping) return
    this.#pumping = true
    queueMicrotask(() => this.#pump())
  }

  #pump(): void {
    this.#pumping = false
    for (const key of this.#waiting) {
      if (this.abort.signal.aborted || this.#running.size >= this.#options.concurrency) return
      this.#waiting.delete(key)
      const row = this.#present.get(key)
      // It may have been touched since it was offered; then the confirming update offers it again.
      if (row === undefined || (row as { $synced?: boolean }).$synced === false) continue
      // Noted before it begins: what it writes at once offers its row again.
      const abort = new AbortController()
      const ended = Promise.resolve().then(() => this.#run(key, row, abort.signal))
      this.#running.set(key, { abort, ended })
    }
  }

  async #run(key: Key, row: TRow, signal: AbortSignal): Promise<void> {
    let verdict: RowVerdict = 'done'
    try {
      verdict = await this.#options.run(row, { key, signal })
    } catch (error) {
      this.#options.onError(toError(error), row)
    }
    this.#running.delete(key)
    const changed = this.#changed.delete(key)
    if (verdict === 'done' && this.#options.once) this.#remember(key)
    if (verdict === 'retry') this.#offerLater(key)
    else this.#retries.delete(key)
    if (changed && verdict !== 'retry') this.#offer(key)
    this.#pump()
  }

  #remember(key: Key): void {
    this.#finished.add(key)
    if (this.#finished.size <= REMEMBERED) return
    const [oldest] = this.#finished
    this.#finished.delete(oldest!)
  }

  #offerLater(key: Key): void {
    const tries = this.#retries.get(key) ?? 0
    this.#retries.set(key, tries + 1)
    const timer = setTimeout(
      () => {
        this.#timers.delete(timer)
        this.#offer(key)
      },
      jittered(backOffMs(tries)),
    )
    this.#timers.add(timer)
  }
}

const backOffMs = (failures: number) => Math.min(RETRY_MS.first * 2 ** failures, RETRY_MS.most)

function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined)
    else signal.addEventListener('abort', () => resolve(undefined), { once: true })
  })
}
