/**
 * A database per test file with a sync server in front of it. By default both are the file's own: a
 * database cut from the migrated template, and an in-process sync server that stops with the file.
 *
 * With ELECTRIC_URL set, a real Electric serves one database, that of DATABASE_URL: there the file
 * gets a schema of its own with the migrated tables, dropped at the end. So a test that is to run
 * against both names its tables by `schema` and touches nothing outside it.
 */
import { randomBytes } from 'node:crypto'
import { drizzle, type PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { afterAll, inject } from 'vitest'
import { migrate } from '../../src/migrate.js'
import { startSyncServer } from '../../src/dev/sync-server/server.js'
import type { SyncServer, SyncServerOptions } from '../../src/dev/sync-server/server.js'
import { createTestDatabase } from './database.js'

export interface SyncedDatabase {
  readonly url: string
  /** A Drizzle database over a small pool. */
  readonly db: PostgresJsDatabase & { $client: postgres.Sql }
  /** The same pool, for plain SQL. */
  readonly sql: postgres.Sql
  /** The schema of the library's tables: 'ai_db', or the file's own on a shared database. */
  readonly schema: string
  /** Origin of the sync server; shapes are at `${electricUrl}/v1/shape`. */
  readonly electricUrl: string
  /** What the sync server asks for as `secret`, if anything. */
  readonly electricSecret: string | undefined
  /** The sync server of this file; undefined when ELECTRIC_URL names another. */
  readonly server: SyncServer | undefined
  /** More pools on the same database: each is another client. Ended with the file. */
  connect(max?: number): PostgresJsDatabase & { $client: postgres.Sql }
}

/** Is the sync server one that the environment names, and not ours? */
export const usesElectric = Boolean(process.env.ELECTRIC_URL)

/**
 * Call it in `beforeAll`; the cleaning up registers itself.
 *
 * @param options For the file's own sync server; a real Electric keeps its own.
 */
export function createSyncedDatabase(
  options: Omit<SyncServerOptions, 'databaseUrl'> = {},
): Promise<SyncedDatabase> {
  const electricUrl = process.env.ELECTRIC_URL
  return electricUrl ? ownSchema(electricUrl) : ownDatabase(options)
}

async function ownDatabase(
  options: Omit<SyncServerOptions, 'databaseUrl'>,
): Promise<SyncedDatabase> {
  const database = await createTestDatabase()
  const server = await startSyncServer({ port: 0, ...options, databaseUrl: database.url })
  // Hooks run last first: the server is gone before its database is dropped.
  afterAll(() => server.stop())
  return {
    url: database.url,
    db: database.db,
    sql: database.sql,
    schema: 'ai_db',
    electricUrl: server.url,
    electricSecret: options.secret,
    server,
    connect: database.connect,
  }
}

async function ownSchema(electricUrl: string): Promise<SyncedDatabase> {
  const url = inject('databaseUrl')
  const schema = `test_${randomBytes(6).toString('hex')}`
  const pools: postgres.Sql[] = []
  const connect = (max = 10) => {
    const client = postgres(url, { onnotice: () => undefined, idle_timeout: 20, max })
    pools.push(client)
    return drizzle({ client })
  }
  const db = connect()
  await migrate(db, { schema })
  afterAll(async () => {
    await db.$client.unsafe(`drop publication if exists "${schema}_publication"`)
    await db.$client.unsafe(`drop schema if exists "${schema}" cascade`)
    await Promise.all(pools.map((pool) => pool.end({ timeout: 5 })))
  })
  return {
    url,
    db,
    sql: db.$client,
    schema,
    electricUrl: electricUrl.replace(/\/$/, ''),
    electricSecret: process.env.ELECTRIC_SECRET || undefined,
    server: undefined,
    connect,
  }
}
