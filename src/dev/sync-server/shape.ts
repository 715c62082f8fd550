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
  append(transaction: Transaction, hits: readonly Hit[]): void
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
  const log = createShapeLog(startLsn)
  let resolve!: () => void
  let reject!: (error: unknown) => void
  const ready = new Promise<void>((...settle) => ([resolve, reject] = settle))
  ready.catch(() => {})
  const listeners = new Set<() => void>()
  let rows: ShapeRows | undefined
  let snapshot: Snapshot | undefined
  let ended = false
  let usedAt = performance.now()
  const wake = () => {
    for (const listener of [...listeners]) listener()
  }
  return {
    handle: createHandle(),
    key: definitionKey(definition),
    definition,
    view,
    clause,
    log,
    ready,
    get rows() {
      return rows
    },
    get ended() {
      return ended
    },
    setRows(given) {
      rows = given
      snapshot = given?.snapshot
      if (snapshot) log.remove(({ xid }) => isVisible(snapshot!, xid))
      resolve()
    },
    fail: reject,
    append(transaction, hits) {
      if (ended || (snapshot && isVisible(snapshot, transaction.xid))) return
      const messages = hits.flatMap((hit) => changeMessages(view, hit.change, hit.membership))
      if (messages.length === 0) return
      const { lsn, xid } = transaction
      const stamped = stampMessages(transaction, messages)
      const chars = stamped.reduce((sum, one) => sum + one.length, 0)
      log.append({ lsn, xid, messages: stamped, chars })
    },
    compact(limitBytes) {
      // Until its rows are there, what they do not hold must stay.
      if (!rows && definition.log === 'full' && log.start === startLsn) return false
      const cut = log.compact(limitBytes)
      if (cut) rows = undefined
      return cut
    },
    subscribe(onNews) {
      listeners.add(onNews)
      return () => {
        listeners.delete(onNews)
        usedAt = performance.now()
      }
    },
    wake,
    end() {
      ended = true
      rows = undefined
      reject(new Error('the shape ended'))
      wake()
    },
    touch: () => void (usedAt = performance.now()),
    idleMs: () => (listeners.size > 0 ? 0 : performance.now() - usedAt),
  }
}
