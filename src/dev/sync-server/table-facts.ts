/**
 * What a table looks like, read from the catalog when a shape of it is opened: columns in order,
 * key, types. `signature` names this structure; a row that replication decodes under another one
 * means that the table was changed, and its shapes start over.
 */
import type { Query, Text } from './text-connections.js'

export interface Column {
  name: string
  /** As `cast` takes it. */
  type: string
  /** Are two values equal if and only if their texts are? */
  equalAsText: boolean
  /** The place in the primary key, from 0. */
  keyIndex: number | undefined
  /** The column's entry in the `electric-schema` header. */
  header: Record<string, unknown>
}

export interface TableFacts {
  oid: number
  schema: string
  name: string
  columns: readonly Column[]
  /** The primary key in its order; all columns where there is none. */
  keyColumns: readonly string[]
  signature: string
  /** Its updates and deletes log the whole old row, and our publication carries it. */
  followed: boolean
}

const TABLE = `
  select c.oid, n.nspname, c.relname,
         c.relreplident = 'f' and exists (
           select from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
           where r.prrelid = c.oid and p.pubname = $3)
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.nspname = $1 and c.relname = $2 and c.relkind = 'r' and c.relpersistence = 'p'
    and n.nspname not in ('pg_catalog', 'information_schema')`

// Generated columns are not in the replication stream.
const COLUMNS = `
  select a.attname, format_type(a.atttypid, a.atttypmod), coalesce(e.typname, t.typname),
         case when e.oid is null then 0 else greatest(a.attndims, 1) end, a.attnotnull,
         array_position(i.indkey::int2[], a.attnum), a.atttypid, a.atttypmod,
         -- No collation, or one that tells every two different texts apart.
         t.oid in ('uuid'::regtype, 'int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'bool'::regtype)
           or t.oid = 'text'::regtype and a.attcollation in (100, 950, 951)
  from pg_attribute a
  join pg_type t on t.oid = a.atttypid
  left join pg_type e on e.oid = t.typelem and t.typcategory = 'A'
  left join pg_index i on i.indrelid = a.attrelid and i.indisprimary
  where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
  order by a.attnum`

export async function readTableFacts(
  query: Query,
  schema: string,
  name: string,
  publication: string,
): Promise<TableFacts | undefined> {
  const [table] = await query(TABLE, [schema, name, publication])
  if (table === undefined) return undefined
  const rows = await query(COLUMNS, [table[0]])
  const columns = rows.map(columnFrom)
  const key = columns.filter((column) => column.keyIndex !== undefined)
  key.sort((a, b) => a.keyIndex! - b.keyIndex!)
  const oid = Number(table[0])
  const types = rows.map((row) => [row[0]!, Number(row[6]), Number(row[7])] as const)
  return {
    oid,
    schema,
    name,
    columns,
    keyColumns: (key.length > 0 ? key : columns).map((column) => column.name),
    signature: tableSignature(oid, schema, name, types),
    followed: table[3] === 't',
  }
}

const STILL_FOLLOWED = `
  select c.oid
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  join pg_publication_rel r on r.prrelid = c.oid join pg_publication p on p.oid = r.prpubid
  where c.oid = any($1::oid[]) and c.relreplident = 'f' and p.pubname = $2
    and (c.oid, n.nspname, c.relname) in (select * from unnest($1::oid[], $3::text[], $4::text[]))`

/** Tables that were dropped, renamed or taken out of the publication, of which replication tells nothing. */
export async function findLostTables(
  query: Query,
  tables: readonly TableFacts[],
  publication: string,
): Promise<TableFacts[]> {
  if (tables.length === 0) return []
  const oids = tables.map((table) => table.oid)
  const schemas = tables.map((table) => table.schema)
  const names = tables.map((table) => table.name)
  const rows = await query(STILL_FOLLOWED, [oids, publication, schemas, names])
  const followed = new Set(rows.map((row) => Number(row[0])))
  return tables.filter((table) => !followed.has(table.oid))
}

export function tableSignature(
  oid: number,
  schema: string,
  name: string,
  columns: readonly (readonly [name: string, typeOid: number, typeMod: number])[],
): string {
  return JSON.stringify([oid, schema, name, columns])
}

function columnFrom(row: Text[]): Column {
  const [name, type, typeName, dims, notNull, position, , typeMod, equalAsText] = row
  // array_position of an int2vector counts from its lower bound, 0.
  const keyIndex = position == null ? undefined : Number(position)
  return {
    name: name!,
    type: type!,
    equalAsText: equalAsText === 't',
    keyIndex,
    header: {
      type: typeName,
      ...modifiers(typeName!, Number(typeMod)),
      ...(dims === '0' ? {} : { dims: Number(dims) }),
      ...(notNull === 't' ? { not_null: true } : {}),
      ...(keyIndex === undefined ? {} : { pk_index: keyIndex }),
    },
  }
}

function modifiers(type: string, typeMod: number): Record<string, number> {
  if (typeMod < 0) return {}
  if (type === 'varchar' || type === 'bpchar') return { max_length: typeMod - 4 }
  if (type === 'bit' || type === 'varbit') return { length: typeMod }
  if (type === 'numeric') {
    return { precision: ((typeMod - 4) >> 16) & 0xffff, scale: (typeMod - 4) & 0x7ff }
  }
  return type.startsWith('time') ? { precision: typeMod } : {}
}
