/**
 * The shapes there are: what a client may sync, as the one list of tables, columns and filters.
 *
 * A shape is asked for by name. Its table, its columns and the filter that keeps it inside one session (or,
 * for the list of sessions, with one owner) come from here; nothing a client sends can add to them.
 * The columns are those of `records`, so a new column of a table is synced only when a record names it.
 */
import { records, type ShapeName } from '../contract/records.js'
import { quoteIdentifier } from '../internal/statement.js'

/** Whose rows: those of one session, or the sessions of one owner. */
export type ShapeScope = { sessionId: string } | { ownerId: string }

export interface Shape {
  /** As Electric wants it: `schema.table`, quoted where it must be. */
  readonly table: string
  /** In the table's words: `session_id`. */
  readonly columns: readonly string[]
  /** One comparison with `$1`. */
  readonly where: string
  readonly param: string
}

export function shapeOf(schema: string, name: ShapeName, scope: ShapeScope): Shape {
  const [column, param] = filterOf(name, scope)
  return {
    table: `${plainOrQuoted(schema)}.${name.replaceAll('-', '_')}`,
    columns: columnsOf(name),
    where: `${quoteIdentifier(column)} = $1`,
    param,
  }
}

function filterOf(name: ShapeName, scope: ShapeScope): [column: string, param: string] {
  if ('ownerId' in scope) return ['owner_id', scope.ownerId]
  return [name === 'sessions' ? 'id' : 'session_id', scope.sessionId]
}

const columns = new Map<ShapeName, readonly string[]>()

function columnsOf(name: ShapeName): readonly string[] {
  let known = columns.get(name)
  if (!known) columns.set(name, (known = Object.keys(records[name].shape).map(toSnake)))
  return known
}

const toSnake = (camel: string) => camel.replace(/[A-Z]/g, (char) => `_${char.toLowerCase()}`)

const plainOrQuoted = (name: string) =>
  /^[a-z_][a-z0-9_]*$/.test(name) ? name : quoteIdentifier(name)
