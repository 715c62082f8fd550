/**
 * A database per test file, cut from a migrated template, so that files cannot see each other. Dropped at the
 * end; kept and named when a test failed. A file that left a connection open fails: something it started did
 * not stop.
 */
import { createHash, randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { drizzle, type PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { afterAll, afterEach, inject } from 'vitest'
import { migrate } from '../../src/migrate.js'

export interface TestDatabase {
  readonly url: string
  readonly name: string
  /** A Drizzle database over a small pool. */
  readonly db: PostgresJsDatabase & { $client: postgres.Sql }
  /** The same pool, for plain SQL. */
  readonly sql: postgres.Sql
  /** More pools on the same database: each is another client. Ended with the file. */
  connect(max?: number): PostgresJsDatabase & { $client: postgres.Sql }
}

const quiet = { onnotice: () => undefined, idle_timeout: 20 }

/**
 * Creates the file's database. Call it in `beforeAll`; the cleaning up registers itself.
 *
 * @param options.migrated false gives an empty database.
 */
export async function createTestDatabase(
  options: { migrated?: boolean } = {},
): Promise<TestDatabase> {
  const adminUrl = inject('databaseUrl')
  const name = `test_${randomBytes(6).toString('hex')}`
  const admin = postgres(adminUrl, { ...quiet, max: 1 })
  const template =
    options.migrated === false ? 'template0' : await migratedTemplate(admin, adminUrl)
  await admin.unsafe(`create database ${name} template ${template}`)
  const url = withDatabase(adminUrl, name)
  const pools: postgres.Sql[] = []
  const connect = (max = 10) => {
    const client = postgres(url, { ...quiet, max })
    pools.push(client)
    return drizzle({ client })
  }
  const db = connect()
  registerCleanup(name, admin, pools)
  return { url, name, db, sql: db.$client, connect }
}

function registerCleanup(name: string, admin: postgres.Sql, pools: postgres.Sql[]): void {
  let failed = false
  afterEach(({ task }) => {
    failed ||= task.result?.state === 'fail'
  })
  afterAll(async () => {
    await Promise.all(pools.map((pool) => pool.end({ timeout: 5 })))
    const left = await connectionsLeft(admin, name)
    if (failed) console.error(`kept for inspection: database ${name}`)
    else await admin.unsafe(`drop database if exists ${name} with (force)`)
    await admin.end({ timeout: 5 })
    if (left.length > 0 && !failed) {
      throw new Error(
        `connections left open on ${name}: ${left.join(' | ')}. Stop what the test started.`,
      )
    }
  })
}

/** Backends of ended connections take a moment to go: waits for that, up to two seconds. */
async function connectionsLeft(admin: postgres.Sql, name: string): Promise<string[]> {
  for (let tries = 0; ; tries += 1) {
    const rows = await admin<{ query: string }[]>`
      select coalesce(nullif(query, ''), backend_type) as query from pg_stat_activity
      where datname = ${name} and backend_type = 'client backend'`
    if (rows.length === 0 || tries >= 40)
      return rows.map((row) => row.query.replaceAll(/\s+/g, ' ').slice(0, 120))
    await admin`select pg_sleep(0.05)`
  }
}

/** One template per state of the migrations, made by whichever file comes first. */
async function migratedTemplate(admin: postgres.Sql, adminUrl: string): Promise<string> {
  const name = `ai_db_template_${migrationsHash()}`
  await admin`select pg_advisory_lock(hashtext('ai_db test template'))`
  try {
    const [row] = await admin`select 1 from pg_database where datname = ${name}`
    if (!row) {
      const making = `${name}_making`
      await admin.unsafe(`drop database if exists ${making} with (force)`)
      await admin.unsafe(`create database ${making} template template0`)
      const client = postgres(withDatabase(adminUrl, making), { ...quiet, max: 1 })
      await migrate(drizzle({ client }))
      await client.end({ timeout: 5 })
      await admin.unsafe(`alter database ${making} rename to ${name}`)
    }
    return name
  } finally {
    await admin`select pg_advisory_unlock(hashtext('ai_db test template'))`
  }
}

function migrationsHash(): string {
  const hash = createHash('sha256')
  for (const folder of ['drizzle', 'migrations']) {
    for (const file of readdirSync(folder)
      .filter((entry) => entry.endsWith('.sql'))
      .sort()) {
      hash.update(file).update(readFileSync(`${folder}/${file}`))
    }
  }
  return hash.digest('hex').slice(0, 12)
}

export function withDatabase(url: string, name: string): string {
  const changed = new URL(url)
  changed.pathname = `/${name}`
  return changed.toString()
}
