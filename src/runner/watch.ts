/**
 * Notices a killed worker at once. Each worker waits for the advisory lock of the next one in the ring of
 * ids; the lock is free exactly when that worker's connection has ended. One connection and no polling per
 * worker, however many there are. Where there is no such lock (a pooler), leases tell, later.
 *
 * The wait is cut into slices: a statement that waits holds back vacuum for as long as it waits.
 *
 * A false alarm (the neighbour's connection broke, the neighbour lives) costs it its runs' current attempt
 * and nothing else: the fence holds, and its lost lease makes it register anew.
 */
import { toError } from '../errors.js'
import { delay, deferred, jittered, type Deferred } from '../internal/abort.js'
import type { Database } from '../internal/database.js'
import type { DatabaseSession } from '../internal/session.js'
import { statement } from '../internal/statement.js'
import { listWorkers } from '../claims/workers.js'
import { lockKey, lockName } from './doorbell.js'

export interface WatchOptions {
  db: Database
  workerId: string
  /** Called with a worker whose connection ended. */
  onDead: (workerId: string) => Promise<void>
  onError?: (error: Error) => void
}

export interface Watch {
  /** Workers came or went: choose the neighbour again. */
  lookAgain(): void
  close(): Promise<void>
}

const SLICE_MS = 10_000
/**
 * After a Postgres restart every lock is free until its worker is back: give them this long. A worker that
 * joined after the restart took its lock from this Postgres, and gets no grace.
 */
const RESTART_GRACE_MS = 3_000
const LOCK_NOT_AVAILABLE = /lock timeout/

// Postgres does not notice that a client has gone while its statement waits for a lock.
const cancelBackendStatement = statement<[pid: number], unknown>(
  'cancel_backend',
  () => `select pg_cancel_backend($1::int)`,
)

export function watchNeighbour(options: WatchOptions): Watch {
  const watch = new NeighbourWatch(options)
  void watch.run()
  return watch
}

class NeighbourWatch implements Watch {
  readonly #options: WatchOptions
  readonly #closing = new AbortController()
  #session: DatabaseSession | undefined
  #pid = 0
  #watched: string | undefined
  #changed: Deferred = deferred()
  #finished: Promise<void> = Promise.resolve()

  constructor(options: WatchOptions) {
    this.#options = options
  }

  run(): Promise<void> {
    this.#finished = this.#loop()
    return this.#finished
  }

  lookAgain(): void {
    this.#changed.resolve()
    if (this.#watched !== undefined) void this.#leaveIfChanged()
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#changed.resolve()
    await this.#dropSession()
    await this.#finished
  }

  async #loop(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      try {
        const neighbour = await this.#neighbour()
        if (neighbour === undefined) await this.#untilChanged(SLICE_MS)
        else await this.#waitFor(neighbour)
      } catch (error) {
        if (this.#closing.signal.aborted) return
        await this.#dropSession()
        this.#options.onError?.(toError(error))
        await delay(jittered(250), this.#closing.signal)
      }
    }
  }

  /** The next worker in the ring that holds a lock; undefined when this one is alone. */
  async #neighbour(): Promise<string | undefined> {
    this.#changed = deferred()
    const { db, workerId } = this.#options
    const others = (await listWorkers(db)).filter((w) => w.locked && w.id !== workerId)
    return (others.find((w) => w.id > workerId) ?? others[0])?.id
  }

  /** One slice of waiting for the neighbour's lock; having it means the neighbour is gone. */
  async #waitFor(neighbour: string): Promise<void> {
    const { db, onDead } = this.#options
    const key = [lockName(db, neighbour)]
    this.#session ??= await this.#openSession()
    // Closed while the session opened: close() found none to drop, and would wait for a slice.
    if (this.#closing.signal.aborted) return this.#dropSession()
    const session = this.#session
    this.#watched = neighbour
    try {
      await session.query(`select pg_advisory_lock(${lockKey})`, key)
    } catch (error) {
      if (this.#session !== session) return // left on purpose, or the connection broke: choose again
      if (LOCK_NOT_AVAILABLE.test(toError(error).message)) return
      throw error
    } finally {
      this.#watched = undefined
    }
    const [restarted] = await session.query<{ msAgo: number }>(
      `select (extract(epoch from now() - pg_postmaster_start_time()) * 1000)::float8 as "msAgo"
         from ${db.tables.workers} where id = $1::text and started_at < pg_postmaster_start_time()`,
      [neighbour],
    )
    await session.query(`select pg_advisory_unlock(${lockKey})`, key)
    const grace = RESTART_GRACE_MS - (restarted?.msAgo ?? RESTART_GRACE_MS)
    if (grace > 0) return this.#untilChanged(grace)
    await onDead(neighbour)
  }

  async #openSession(): Promise<DatabaseSession> {
    const session = await this.#options.db.openSession({
      onClose: () => (this.#session = undefined),
    })
    await session.query(`set lock_timeout = ${SLICE_MS}`)
    const [backend] = await session.query<{ pid: number }>('select pg_backend_pid() as pid')
    this.#pid = backend?.pid ?? 0
    return session
  }

  async #leaveIfChanged(): Promise<void> {
    const watched = this.#watched
    try {
      if ((await this.#neighbour()) !== watched && this.#watched === watched)
        await this.#dropSession()
    } catch {
      // The database is away: the loop meets the same failure and reports it.
    }
  }

  async #dropSession(): Promise<void> {
    const session = this.#session
    if (!session) return
    this.#session = undefined
    if (this.#watched !== undefined) {
      await this.#options.db.query(cancelBackendStatement, [this.#pid]).catch(() => undefined)
    }
    await session.close()
  }

  async #untilChanged(ms: number): Promise<void> {
    const over = new AbortController()
    await Promise.race([delay(ms, over.signal), this.#changed.promise])
    over.abort()
  }
}
