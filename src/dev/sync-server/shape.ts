/**
 * One shape: a definition, a random handle that is never used again, the rows of its snapshot as the
 * first client gets them, and the log since. It ends once: rotated (the table changed, replication was
 * lost, somebody deleted it) or dropped for being idle; whoever waits is told to start over.
 *
 * Rows are not kept up to date in memory. A log that outgrew its limit loses its oldest half and the
 * shape its rows: clients that follow it go on, and who comes new gets a new shape with new rows.
 */
import { randomBytes } from 'node:crypto'
import { changeMessages, stampMessages } from './change-messages.js'
import type { Membership, ShapeView } from './change-messages.js'
import type { RowChange, Transaction } from './replication.js'
import { createShapeLog } from './shape-log.js'
import type { ShapeLog } from './shape-log.js'
import { isVisible } from './snapshot-visibility.js'
import type { Snapshot } from './snapshot-visibility.js'
import type { Clause } from './where-clause.js'

export interface ShapeDefinition {
  schema: string
  name: string
  where: string | undefined
  params: readonly string[]
  columns: readonly string[] | undefined
  replica: 'default' | 'full'
  log: 'full' | 'changes_only'
}

export interface ShapeRows {
  /** Messages as JSON, joined with commas; empty without rows. */
  json: string
  snapshot: Snapshot
}

/** One change of a transaction, and where the row was and is for this shape. */
export interface Hit {
  change: RowChange
  membership: Membership
}

export interface Shape {
  readonly handle: string
  readonly key: string
  readonly definition: ShapeDefinition
  readonly view: ShapeView
  readonly clause: Clause | undefined
  readonly log: ShapeLog
  /** Absent while the snapshot is taken, with `changes_only`, and once the log outgrew its limit. */
  readonly rows: ShapeRows | undefined
  readonly ended: boolean
  /** Resolves when the shape can be read from its beginning; rejects when its snapshot failed. */
  readonly ready: Promise<void>
  setRows(rows: ShapeRows | undefined): void
  fail(error: unknown): void
  /** False when none of it concerns the shape. */
  append(transaction: Transaction, hits: readonly Hit[]): boolean
  /** True when the log was cut, and newcomers need another shape. */
  compact(limitBytes: number): boolean
  /** Called at each change and at the end. Returns the way to stop. */
  subscribe(onNews: () => void): () => void
  wake(): void
  end(): void
  touch(): void
  /** For how long nobody asked or waited, in milliseconds. */
  idleMs(): number
}

export function createHandle(): string {
  return `${randomBytes(8).readBigUInt64BE()}-${Date.now()}`
}

export function definitionKey(definition: ShapeDefinition): string {
  const { schema, name, where, params, columns, replica, log } = definition
  return JSON.stringify([schema, name, where, params, columns, replica, log])
}

export function createShape(
  definition: ShapeDefinition,
  view: ShapeView,
  clause: Clause | undefined,
  startLsn: bigint,
): Shape {
  return new FollowedShape(definition, view, clause, startLsn)
}

class FollowedShape implements Shape {
  readonly handle = createHandle()
  readonly key: string
  readonly log: ShapeLog
  readonly ready: Promise<void>
  rows: ShapeRows | undefined
  ended = false
  /** Kept when the rows are gone: a transaction in it may still arrive. */
  #snapshot: Snapshot | undefined
  #settled = false
  #resolve!: () => void
  #reject!: (error: unknown) => void
  #usedAt = performance.now()
  readonly #listeners = new Set<() => void>()

  constructor(
    readonly definition: ShapeDefinition,
    readonly view: ShapeView,
    readonly clause: Clause | undefined,
    startLsn: bigint,
  ) {
    this.key = definitionKey(definition)
    this.log = createShapeLog(startLsn)
    this.ready = new Promise<void>((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    // Whoever asks for rows awaits it; nobody may.
    this.ready.catch(() => {})
  }

  setRows(rows: ShapeRows | undefined): void {
    if (this.ended) return
    this.rows = rows
    this.#snapshot = rows?.snapshot
    if (rows) this.log.remove(({ xid }) => isVisible(rows.snapshot, xid))
    this.#settled = true
    this.#resolve()
  }

  fail(error: unknown): void {
    this.#reject(error)
  }

  append(transaction: Transaction, hits: readonly Hit[]): boolean {
    const { lsn, xid } = transaction
    if (this.ended || (this.#snapshot && isVisible(this.#snapshot, xid))) return false
    const messages = hits.flatMap(({ change, membership }) =>
      changeMessages(this.view, change, membership),
    )
    if (messages.length === 0) return false
    const stamped = stampMessages(transaction, messages)
    const chars = stamped.reduce((sum, one) => sum + one.length, 0)
    this.log.append({ lsn, xid, messages: stamped, chars })
    return true
  }

  compact(limitBytes: number): boolean {
    // Until its rows are there, what they do not hold must stay.
    if (!this.#settled) return false
    const cut = this.log.compact(limitBytes)
    if (cut) this.rows = undefined
    return cut
  }

  subscribe(onNews: () => void): () => void {
    this.#listeners.add(onNews)
    return () => {
      this.#listeners.delete(onNews)
      this.touch()
    }
  }

  wake(): void {
    for (const listener of [...this.#listeners]) listener()
  }

  end(): void {
    if (this.ended) return
    this.ended = true
    this.rows = undefined
    this.#reject(new ShapeEnded())
    this.wake()
  }

  touch(): void {
    this.#usedAt = performance.now()
  }

  idleMs(): number {
    return this.#listeners.size > 0 ? 0 : performance.now() - this.#usedAt
  }
}

/** Why `ready` is rejected when the shape ended before its rows were there. */
export class ShapeEnded extends Error {}
