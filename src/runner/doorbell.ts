/**
 * The doorbell: one LISTEN connection a process, which also carries the advisory lock that stands for the
 * worker's life (decision 6). Rings are hints; after a reconnect everybody is rung, as some were missed.
 *
 * Behind a transaction pooler LISTEN succeeds and nothing ever arrives, so it proves itself when it opens: a
 * probe is sent through the pool and must come back. If not, the worker polls and lives by its lease.
 */
import { randomUUID } from 'node:crypto'
import { toError } from '../errors.js'
import { delay, deferred, jittered } from '../internal/abort.js'
import type { Database } from '../internal/database.js'
import type { DatabaseSession } from '../internal/session.js'
import { statement } from '../internal/statement.js'

export type Ring =
  | { kind: 'generation'; name: string }
  | { kind: 'tool-call'; name: string }
  /** A tool call of this generation was settled by another process, or answered by another agent. */
  | { kind: 'settled'; id: string }
  /** This generation or tool call was cancelled. */
  | { kind: 'cancelled'; id: string }
  /** A worker came or went. */
  | { kind: 'workers' }
  /** Rings may have been missed: look at everything. */
  | { kind: 'missed' }

export interface Doorbell {
  /** `poll`: notifications do not arrive here (a transaction pooler), so nobody can be rung. */
  readonly mode: 'listen' | 'poll'
  /** Is the lock that stands for this worker's life held now? */
  readonly locked: boolean
  onRing(listener: (ring: Ring) => void): () => void
  close(): Promise<void>
}

export interface DoorbellOptions {
  db: Database
  workerId: string
  /** `auto` tests whether notifications arrive. @default 'auto' */
  mode?: 'auto' | 'listen' | 'poll'
  /** How long the probe may take, in ms. @default 2000 */
  probeMs?: number
  onError?: (error: Error) => void
}

const notifyStatement = statement<[channel: string, payload: string], unknown>(
  'notify',
  () => `select pg_notify($1::text, $2::text)`,
)

/** The advisory lock key of a worker; `$1` is `schema:worker id`. */
export const lockKey = 'hashtextextended($1::text, 0)'

export const lockName = (db: Database, workerId: string) => `${db.schemaName}:${workerId}`

const RECONNECT_MAX_MS = 2_000

export async function openDoorbell(options: DoorbellOptions): Promise<Doorbell> {
  if (options.mode === 'poll') return silent
  const bell = new ListeningDoorbell(options)
  await bell.connect()
  if (options.mode === 'listen' || (await bell.probe(options.probeMs ?? 2_000))) return bell
  await bell.close()
  return silent
}

/** Nothing rings; the worker polls. */
const silent: Doorbell = {
  mode: 'poll',
  locked: false,
  onRing: () => () => undefined,
  close: () => Promise.resolve(),
}

class ListeningDoorbell implements Doorbell {
  readonly mode = 'listen'
  locked = false
  #session: DatabaseSession | undefined
  readonly #listeners = new Set<(ring: Ring) => void>()
  readonly #closing = new AbortController()
  #onProbe: ((payload: string) => void) | undefined
  readonly #options: DoorbellOptions

  constructor(options: DoorbellOptions) {
    this.#options = options
  }

  onRing(listener: (ring: Ring) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async connect(): Promise<void> {
    const { db, workerId } = this.#options
    const session = await db.openSession({
      channel: db.schemaName,
      onNotify: (payload) => this.#heard(payload),
      onClose: () => void this.#reconnect(),
    })
    await session.query(`select pg_advisory_lock(${lockKey})`, [lockName(db, workerId)])
    if (this.#closing.signal.aborted) return session.close()
    this.#session = session
    this.locked = true
  }

  async probe(timeoutMs: number): Promise<boolean> {
    const { db } = this.#options
    const payload = `probe:${randomUUID()}`
    const heard = deferred<boolean>()
    this.#onProbe = (got) => got === payload && heard.resolve(true)
    await db.query(notifyStatement, [db.schemaName, payload])
    const timer = setTimeout(() => heard.resolve(false), timeoutMs)
    const arrived = await heard.promise
    clearTimeout(timer)
    this.#onProbe = undefined
    return arrived
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#listeners.clear()
    this.locked = false
    await this.#session?.close()
  }

  async #reconnect(): Promise<void> {
    this.locked = false
    this.#session = undefined
    for (let tries = 0; !this.#closing.signal.aborted; tries += 1) {
      try {
        await this.connect()
        return this.#tell({ kind: 'missed' })
      } catch (error) {
        this.#options.onError?.(toError(error))
        await delay(jittered(Math.min(50 * 2 ** tries, RECONNECT_MAX_MS)), this.#closing.signal)
      }
    }
  }

  #heard(payload: string): void {
    if (payload.startsWith('probe:')) return this.#onProbe?.(payload)
    const ring = parseRing(payload)
    if (ring) this.#tell(ring)
  }

  #tell(ring: Ring): void {
    for (const listener of this.#listeners) listener(ring)
  }
}

/** A payload as a ring; undefined for words of another version. */
export function parseRing(payload: string): Ring | undefined {
  const colon = payload.indexOf(':')
  const kind = colon < 0 ? payload : payload.slice(0, colon)
  const rest = payload.slice(colon + 1)
  if (kind === 'generation' || kind === 'tool-call') return { kind, name: rest }
  if (kind === 'settled' || kind === 'cancelled') return { kind, id: rest }
  return kind === 'workers' ? { kind } : undefined
}
