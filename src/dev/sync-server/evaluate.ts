/**
 * Which shapes a changed row belongs to, as Postgres sees it. Shapes with the same clause over the same
 * table are one group, whatever their parameters: the rows and the parameters of the whole group go
 * there as arrays of text, and one query tells the pairs for which the clause holds. Nothing is read
 * from a table, so it does not matter what happened to the row since.
 */
import { quoteName } from './identifiers.js'
import type { RowChange } from './replication.js'
import type { Membership } from './change-messages.js'
import type { Row } from './pgoutput-text.js'
import type { TableFacts } from './table-facts.js'
import type { Query, TextPool } from './text-connections.js'
import { writeClause } from './where-clause.js'
import type { Clause } from './where-clause.js'

/** A clause as Postgres understood it. */
export interface Evaluator {
  /** The type of each `$n`, in order. */
  paramTypes: readonly string[]
  /**
   * Of all pairs of changes and parameter lists those where the old or the new row is in:
   * for each list by its index, the changes by theirs, ascending.
   */
  evaluate(
    changes: readonly RowChange[],
    params: readonly (readonly string[])[],
  ): Promise<Map<number, Map<number, Membership>>>
}

/** Rows in one query; more are several. */
const ROWS_PER_QUERY = 4_000

let statements = 0

/** Asks Postgres to prepare the clause over the table, which is its check too, and for the types of its parameters. */
export async function describeParams(
  pool: TextPool,
  table: TableFacts,
  clause: Clause,
): Promise<string[]> {
  const name = `describe_${(statements += 1)}`
  const from = `${quoteName(table.schema)}.${quoteName(table.name)}`
  return pool.transaction('begin read only', async (query) => {
    await query(`prepare ${name} as select 1 from ${from} where (${writeClause(clause)})`)
    const rows = await query(
      `select format_type(t.oid, null) from pg_prepared_statements,
              unnest(parameter_types::oid[]) with ordinality as t(oid, at)
       where name = $1 order by at`,
      [name],
    )
    await query(`deallocate ${name}`)
    return rows.map((row) => row[0]!)
  })
}

/** The parameters as Postgres writes values of their types; throws what it says when one is none. */
export async function canonicalParams(
  query: Query,
  types: readonly string[],
  params: readonly string[],
): Promise<string[]> {
  if (types.length === 0) return []
  const casts = types.map((type, at) => `$${at + 1}::text::${type}`)
  const [row] = await query(`select ${casts.join(', ')}`, [...params])
  return row!.map((value) => value!)
}

export function createEvaluator(
  query: Query,
  table: TableFacts,
  clause: Clause,
  paramTypes: readonly string[],
): Evaluator {
  const columns = table.columns.filter((column) => clause.columns.includes(column.name))
  const names = columns.map((column) => column.name)
  const text = evaluationQuery(columns, clause, paramTypes)
  const ask = async (rows: readonly Row[], params: readonly (readonly string[])[]) => {
    const values = [
      rows.map((_, at) => at),
      ...names.map((name) => rows.map((row) => row[name] ?? null)),
      ...(paramTypes.length === 0 ? [] : [params.map((_, at) => at)]),
      ...paramTypes.map((_, at) => params.map((list) => list[at])),
    ]
    return query(text, values)
  }
  return {
    paramTypes,
    async evaluate(changes, params) {
      const found = new Map<number, Map<number, Membership>>()
      const hit = (set: number, change: number, membership: Partial<Membership>) => {
        let changesOfSet = found.get(set)
        if (changesOfSet === undefined) found.set(set, (changesOfSet = new Map()))
        const known = changesOfSet.get(change) ?? { was: false, is: false }
        changesOfSet.set(change, { ...known, ...membership })
      }
      for (const batch of versionsOf(changes, names)) {
        const pairs = await ask(
          batch.map((version) => version.row),
          params,
        )
        for (const [row, set] of pairs) {
          const { change, membership } = batch[Number(row)]!
          hit(Number(set), change, membership)
        }
      }
      for (const [set, hits] of found) found.set(set, new Map([...hits].sort(([a], [b]) => a - b)))
      return found
    },
  }
}

interface Version {
  row: Row
  change: number
  /** What it means when the clause holds for this row. */
  membership: Partial<Membership>
}

/** Old and new rows to be judged; one for both when the clause reads nothing that changed. */
function versionsOf(changes: readonly RowChange[], names: readonly string[]): Version[][] {
  const all = changes.flatMap(({ old, new: now }, change): Version[] => {
    const same = old && now && names.every((name) => old[name] === now[name])
    if (same) return [{ row: now, change, membership: { was: true, is: true } }]
    const versions: Version[] = []
    if (old) versions.push({ row: old, change, membership: { was: true } })
    if (now) versions.push({ row: now, change, membership: { is: true } })
    return versions
  })
  const batches: Version[][] = []
  for (let at = 0; at < all.length; at += ROWS_PER_QUERY) {
    batches.push(all.slice(at, at + ROWS_PER_QUERY))
  }
  return batches
}

function evaluationQuery(
  columns: TableFacts['columns'],
  clause: Clause,
  paramTypes: readonly string[],
): string {
  const rowArrays = ['$1::int[]', ...columns.map((_, at) => `$${at + 2}::text[]`)]
  const rowNames = ['r', ...columns.map((_, at) => `c${at}`)]
  const rowColumns = columns.map(({ name, type }, at) => `c${at}::${type} as ${quoteName(name)}`)
  const rows = `select ${['r as "$row"', ...rowColumns].join(', ')}
    from unnest(${rowArrays.join(', ')}) as u(${rowNames.join(', ')})`
  const where = writeClause(clause, (n) => `p."$${n}"`)
  if (paramTypes.length === 0) return `select "$row", 0 from (${rows}) as t where (${where})`
  const first = rowArrays.length + 1
  const setArrays = [`$${first}::int[]`, ...paramTypes.map((_, at) => `$${first + 1 + at}::text[]`)]
  const setNames = ['s', ...paramTypes.map((_, at) => `p${at}`)]
  const setColumns = paramTypes.map((type, at) => `p${at}::${type} as "$${at + 1}"`)
  const sets = `select ${['s as "$set"', ...setColumns].join(', ')}
    from unnest(${setArrays.join(', ')}) as v(${setNames.join(', ')})`
  return `select "$row", p."$set" from (${rows}) as t cross join (${sets}) as p where (${where})`
}
