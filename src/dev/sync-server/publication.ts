/**
 * The server's own publication. A table joins it when its first shape is opened, with full replica
 * identity as Electric sets it, in one transaction that waits for every writer in progress: a change
 * written before the table was published is decoded as unpublished even when it commits later, and
 * would be missed by the snapshot before that and by the stream after it.
 *
 * Tables stay published: other servers of this database may use the same publication.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { systemCode } from '../dev-stack-error.js'
import { quoteName } from './identifiers.js'
import { invalidRequest, notReady } from './request-error.js'
import { readTableFacts } from './table-facts.js'
import type { TableFacts } from './table-facts.js'
import type { TextPool } from './text-connections.js'

export const PUBLICATION = 'electric_ai_db_dev_sync'

/** Somebody else made it in the same moment. */
const EXISTS = new Set(['42710', '23505'])
/** lock_not_available, deadlock_detected: waiting writers go first, then we try again. */
const BUSY = new Set(['55P03', '40P01'])
const PATIENCE_MS = 15_000

export async function ensurePublication(pool: TextPool): Promise<void> {
  const found = await pool.query('select 1 from pg_publication where pubname = $1', [PUBLICATION])
  if (found.length > 0) return
  await pool.query(`create publication ${PUBLICATION}`).catch((thrown: unknown) => {
    if (!EXISTS.has(systemCode(thrown) ?? '')) throw thrown
  })
}

/** The facts of a table that is followed from now on. */
export async function followTable(
  pool: TextPool,
  schema: string,
  name: string,
): Promise<TableFacts> {
  const deadline = performance.now() + PATIENCE_MS
  for (;;) {
    const facts = await readTableFacts(pool.query, schema, name, PUBLICATION)
    if (facts === undefined) throw unknownTable(schema, name)
    if (facts.followed) return facts
    try {
      await publish(pool, facts)
    } catch (thrown) {
      const code = systemCode(thrown) ?? ''
      if (!EXISTS.has(code) && !BUSY.has(code)) throw thrown
      if (performance.now() > deadline) {
        throw notReady(`"${schema}"."${name}" is locked by a transaction that does not end`)
      }
      await pause(50)
    }
  }
}

async function publish(pool: TextPool, facts: TableFacts): Promise<void> {
  const table = `${quoteName(facts.schema)}.${quoteName(facts.name)}`
  await pool.transaction('begin', async (query) => {
    await query(`set local lock_timeout = '500ms'`)
    const [row] = await query('select relreplident from pg_class where oid = $1', [facts.oid])
    const full = row?.[0] === 'f'
    // The stronger lock at once where it will be needed: taking it second could deadlock.
    await query(`lock table ${table} in ${full ? 'share row exclusive' : 'access exclusive'} mode`)
    if (!full) await query(`alter table ${table} replica identity full`)
    const published = await query(
      'select 1 from pg_publication_tables where pubname = $1 and schemaname = $2 and tablename = $3',
      [PUBLICATION, facts.schema, facts.name],
    )
    if (published.length === 0) await query(`alter publication ${PUBLICATION} add table ${table}`)
  })
}

function unknownTable(schema: string, name: string) {
  return invalidRequest(
    'table',
    `Table "${schema}"."${name}" does not exist. ` +
      'If the table name contains capitals or special characters you must quote it.',
  )
}
