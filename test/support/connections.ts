/**
 * Connections whose moments a test controls: transactions held open, lock waits seen in pg_stat_activity,
 * and the other driver. All of it ends with the test.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { drizzle as drizzleNodePostgres } from 'drizzle-orm/node-postgres'
import { drizzle, type PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import pg from 'pg'
import postgres from 'postgres'
import { onTestFinished } from 'vitest'
import { toDatabase, type Database } from '../../src/internal/database.js'
import { createStore, type Store } from '../../src/claims/store.js'

export type Sql = postgres.Sql

export interface HeldConnection {
  /** Plain SQL on this one connection. */
  readonly sql: Sql
  readonly db: PostgresJsDatabase & { $client: Sql }
  /** The library's verbs on this one connection. */
  readonly store: Store
  readonly database: Database
  /** The backend's process id, for `waitForLock`. */
  readonly pid: number
}

export interface OpenTransaction extends HeldConnection {
  commit(): Promise<void>
  rollback(): Promise<void>
}

/** One connection of its own: what is set on it stays, what it runs comes in order. */
export async function holdConnection(url: string): Promise<HeldConnection> {
  const sql = postgres(url, { max: 1, onnotice: () => undefined })
  onTestFinished(() => sql.end({ timeout: 0 }))
  const [row] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`
  const db = drizzle({ client: sql })
  return { sql, db, store: createStore(db), database: toDatabase(db), pid: row!.pid }
}

/** A transaction that stays open until the test says otherwise; the library's verbs can run inside. */
export async function openTransaction(url: string): Promise<OpenTransaction> {
  const held = await holdConnection(url)
  await held.sql.unsafe('begin')
  const end = async (how: string) => {
    await held.sql.unsafe(how)
  }
  return { ...held, commit: () => end('commit'), rollback: () => end('rollback') }
}

/** Resolves when the backend waits for another's lock: the moment two transactions are in each other's way. */
export function waitForLock(sql: Sql, pid: number): Promise<void> {
  return waitUntil(`backend ${pid} waits for a lock`, async () => {
    const [row] = await sql`
      select 1 from pg_stat_activity where pid = ${pid} and wait_event_type = 'Lock'`
    return row !== undefined
  })
}

/** Asks until the answer is yes. */
export async function waitUntil(
  what: string,
  condition: () => boolean | Promise<boolean>,
  timeoutMs = 10_000,
): Promise<void> {
  const end = performance.now() + timeoutMs
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`did not happen in ${timeoutMs} ms: ${what}`)
    await pause(5)
  }
}

/** Every row of every contract table as text, to compare before with after. */
export async function dumpTables(sql: Sql, schema = 'ai_db'): Promise<Record<string, string[]>> {
  const tables = await sql<{ name: string }[]>`
    select table_name as name from information_schema.tables
    where table_schema = ${schema} and table_name <> '_migrations' order by 1`
  const dump: Record<string, string[]> = {}
  for (const { name } of tables) {
    const rows = await sql<{ line: string }[]>`
      select to_jsonb(t)::text as line from ${sql(schema)}.${sql(name)} t order by id`
    dump[name] = rows.map((row) => row.line)
  }
  return dump
}

/** A pool of `drizzle-orm/node-postgres` on the same database. */
export function connectNodePostgres(url: string, max = 4) {
  const pool = new pg.Pool({ connectionString: url, max })
  pool.on('error', () => undefined)
  onTestFinished(() => pool.end())
  return drizzleNodePostgres({ client: pool })
}

/** A pool of `drizzle-orm/postgres-js` on the given address. */
export function connectPostgresJs(url: string, max = 4) {
  const client = postgres(url, { max, onnotice: () => undefined, connect_timeout: 5 })
  onTestFinished(() => client.end({ timeout: 0 }))
  return drizzle({ client })
}

/** The same test for both drivers: `describe.each(drivers)('%s', (_name, connect) => …)`. */
export const drivers = [
  ['postgres-js', connectPostgresJs],
  ['node-postgres', connectNodePostgres],
] as const
