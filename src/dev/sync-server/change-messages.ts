/**
 * A changed row as the messages of Electric's log. `was` and `is` say whether the shape's where held
 * for the old and the new row: a row that moves in is an insert, one that moves out a delete.
 *
 * An update that changes no column of the shape has no message, as with Electric: whoever waits for
 * the echo of a write must change something.
 */
import { quoteName } from './identifiers.js'
import type { Row, Relation } from './pgoutput-text.js'
import type { RowChange, Transaction } from './replication.js'
import type { TableFacts } from './table-facts.js'

export interface ShapeView {
  table: TableFacts
  /** The columns that clients get, the key among them. */
  columns: readonly string[]
  replica: 'default' | 'full'
}

export interface Membership {
  was: boolean
  is: boolean
}

interface Message {
  key: string
  value: Record<string, unknown>
  old_value?: Record<string, unknown>
  headers: Record<string, unknown>
}

/** Can the rows of this relation be written as messages of a shape that knows these facts? */
export function fits(table: TableFacts, relation: Relation): boolean {
  return relation.full && relation.signature === table.signature
}

export function changeMessages(
  view: ShapeView,
  { old, new: now }: RowChange,
  { was, is }: Membership,
): Message[] {
  if (was && is) return updateMessages(view, old!, now!)
  if (is) return [message(view, 'insert', now!, view.columns)]
  return was ? [deleteMessage(view, old!)] : []
}

function updateMessages(view: ShapeView, old: Row, now: Row): Message[] {
  const { keyColumns } = view.table
  const key = rowKey(view.table, now)
  const oldKey = rowKey(view.table, old)
  if (key !== oldKey) {
    const gone = deleteMessage(view, old)
    const come = message(view, 'insert', now, view.columns)
    gone.headers.key_change_to = key
    come.headers.key_change_from = oldKey
    return [gone, come]
  }
  const changed = view.columns.filter((name) => old[name] !== now[name])
  if (changed.length === 0) return []
  if (view.replica === 'full') {
    const whole = message(view, 'update', now, view.columns)
    return [{ ...whole, old_value: pick(old, changed) }]
  }
  const told = view.columns.filter((name) => keyColumns.includes(name) || old[name] !== now[name])
  return [message(view, 'update', now, told)]
}

function deleteMessage(view: ShapeView, old: Row): Message {
  const told = view.replica === 'full' ? view.columns : view.table.keyColumns
  return message(view, 'delete', old, told)
}

function message(
  { table }: ShapeView,
  operation: string,
  row: Row,
  columns: readonly string[],
): Message {
  const headers = { operation, relation: [table.schema, table.name] }
  return { key: rowKey(table, row), value: pick(row, columns), headers }
}

function pick(row: Row, columns: readonly string[]): Record<string, unknown> {
  const value: Record<string, unknown> = Object.create(null)
  for (const name of columns) value[name] = row[name] ?? null
  return value
}

/** `"public"."t"/"1"`; a slash within a value is doubled, so that no two keys read the same. */
export function rowKey(table: TableFacts, row: Row): string {
  const values = table.keyColumns.map((name) => {
    const value = row[name]
    return value == null ? '_' : `"${value.replaceAll('/', '//')}"`
  })
  return [`${quoteName(table.schema)}.${quoteName(table.name)}`, ...values].join('/')
}

/** The messages of one transaction for one shape as JSON, with what only the whole knows. */
export function stampMessages(transaction: Transaction, messages: Message[]): string[] {
  const { xid, lsn } = transaction
  return messages.map((one, at) => {
    const last = at === messages.length - 1 ? { last: true } : {}
    const place = { txids: [xid], lsn: `${lsn}`, op_position: at * 2, ...last }
    return JSON.stringify({ ...one, headers: { ...one.headers, ...place } })
  })
}
