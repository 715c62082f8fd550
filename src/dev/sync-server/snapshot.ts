/**
 * Rows of a table as one Postgres snapshot has them: all of a shape, or a subset of it.
 *
 * A transaction can arrive by replication a moment before a snapshot sees it. `arrived` tells which
 * ones did: a snapshot without one of them is taken again, or its change would be in neither the rows
 * nor the log after them.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { rowKey } from './change-messages.js'
import { quoteName } from './identifiers.js'
import type { Row } from './pgoutput-text.js'
import { notReady } from './request-error.js'
import type { Shape } from './shape.js'
import { isVisible, parseSnapshot } from './snapshot-visibility.js'
import type { Snapshot } from './snapshot-visibility.js'
import type { Text, TextPool } from './text-connections.js'
import { writeClause } from './where-clause.js'
import type { Clause } from './where-clause.js'

export interface Subset {
  where: Clause | undefined
  params: readonly string[]
  orderBy: Clause | undefined
  limit: number | undefined
  offset: number | undefined
}

export interface RowsAtSnapshot {
  snapshot: Snapshot
  /** Where the log ended when the snapshot was taken. */
  databaseLsn: string
  /** Messages as JSON. */
  messages: string[]
}

const PATIENCE_MS = 10_000

export async function readRows(
  pool: TextPool,
  shape: Shape,
  arrived: readonly number[],
  subset?: Subset,
  headers: Record<string, unknown> = {},
): Promise<RowsAtSnapshot> {
  const { table, columns } = shape.view
  const { text, values } = rowsQuery(shape, subset)
  const operation = { operation: 'insert', relation: [table.schema, table.name], ...headers }
  const toMessage = (values: Text[]) => {
    const row: Record<string, Text> = Object.create(null)
    columns.forEach((name, at) => (row[name] = values[at]!))
    return JSON.stringify({ key: rowKey(table, row as Row), value: row, headers: operation })
  }
  const deadline = performance.now() + PATIENCE_MS
  for (;;) {
    const found = await pool.transaction(
      'begin isolation level repeatable read read only',
      async (query) => {
        const [at] = await query(
          `select pg_current_snapshot(), (pg_current_wal_insert_lsn() - '0/0')::text`,
        )
        const snapshot = parseSnapshot(at![0]!)
        if (!arrived.every((xid) => isVisible(snapshot, xid))) return undefined
        return { snapshot, databaseLsn: at![1]!, rows: await query(text, values) }
      },
    )
    if (found !== undefined) return { ...found, messages: found.rows.map(toMessage) }
    if (performance.now() > deadline) throw notReady('A commit is not visible yet')
    await pause(2)
  }
}

function rowsQuery(shape: Shape, subset: Subset | undefined) {
  const { table, columns } = shape.view
  const params = [...shape.definition.params]
  const conditions = shape.clause ? [`(${writeClause(shape.clause)})`] : []
  const shift = (n: number) => `$${n + shape.definition.params.length}`
  if (subset?.where) conditions.push(`(${writeClause(subset.where, shift)})`)
  if (subset) params.push(...subset.params)
  const where = conditions.length > 0 ? ` where ${conditions.join(' and ')}` : ''
  const order = subset?.orderBy ? ` order by ${writeClause(subset.orderBy, shift)}` : ''
  const limit = subset?.limit === undefined ? '' : ` limit ${subset.limit}`
  const offset = subset?.offset === undefined ? '' : ` offset ${subset.offset}`
  const from = `${quoteName(table.schema)}.${quoteName(table.name)}`
  const text = `select ${columns.map((name) => quoteName(name)).join(', ')} from ${from}`
  return { text: text + where + order + limit + offset, values: params }
}
