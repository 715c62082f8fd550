/**
 * What every bench gets: the stack's addresses, and databases of its own, cut from one migrated template
 * and dropped at the end. Each bench has one database for ours and one for its floor, on the same server,
 * so that neither hears the other's notifications.
 */
import { drizzle, type PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { migrate } from '../src/migrate.js'
import type { DevStack } from '../src/dev.js'

export type BenchDb = PostgresJsDatabase & { $client: postgres.Sql }

export interface BenchDatabase {
  readonly url: string
  /** A Drizzle database over a pool of ten. */
  readonly db: BenchDb
  /** The same pool, for plain SQL. */
  readonly sql: postgres.Sql
}

export interface World {
  readonly quick: boolean
  readonly streamsUrl: string
  /** A migrated database. */
  database(): Promise<BenchDatabase>
}

/** As `connect`, for child processes as well: the same driver with the same settings on both sides. */
export function connect(url: string, max = 10): BenchDb {
  return drizzle({ client: postgres(url, { max, onnotice: () => undefined }) })
}

export interface OwnedWorld extends World {
  /** Drops the databases made so far. */
  clear(): Promise<void>
  close(): Promise<void>
}

export async function createWorld(stack: DevStack, quick: boolean): Promise<OwnedWorld> {
  const prefix = `bench_${process.pid}_${Date.now().toString(36)}`
  const admin = postgres(stack.databaseUrl, { max: 1, onnotice: () => undefined })
  const template = `${prefix}_template`
  await admin.unsafe(`create database ${template}`)
  const migrating = connect(withDatabase(stack.databaseUrl, template), 1)
  await migrate(migrating)
  await migrating.$client.end()
  const made: { name: string; db: BenchDb }[] = []
  let count = 0
  const clear = async () => {
    for (const { name, db } of made.splice(0)) {
      await db.$client.end({ timeout: 5 })
      await admin.unsafe(`drop database ${name} with (force)`)
    }
  }
  return {
    quick,
    streamsUrl: stack.streamsUrl,
    database: async () => {
      const name = `${prefix}_${(count += 1)}`
      await admin.unsafe(`create database ${name} template ${template}`)
      const url = withDatabase(stack.databaseUrl, name)
      const db = connect(url)
      made.push({ name, db })
      return { url, db, sql: db.$client }
    },
    clear,
    close: async () => {
      await clear()
      await admin.unsafe(`drop database ${template} with (force)`)
      await admin.end()
    },
  }
}

function withDatabase(url: string, name: string): string {
  const changed = new URL(url)
  changed.pathname = `/${name}`
  return changed.toString()
}
