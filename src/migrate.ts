/**
 * Migrations: `drizzle/` (tables, generated from src/schema.ts) and `migrations/` (guards, triggers,
 * publication, by hand), applied in that order, each file once, all in one transaction.
 *
 * - Two processes may start it at once: an advisory lock makes the second wait and find it done.
 * - A host whose own drizzle-kit made the tables passes `tables: 'host'` and gets the second folder only.
 * - A database with a migration this version does not know is refused: an old process must not run on it.
 * - The files say "ai_db"; another schema name is written in its place.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { sql } from 'drizzle-orm'
import { AiDbError } from './errors.js'
import { mapDatabaseError } from './internal/database-errors.js'
import { refuseUnknownOptions, requireWord } from './internal/options.js'
import { quoteIdentifier } from './internal/statement.js'
import type { DrizzleDatabase } from './internal/database.js'

export interface MigrateOptions {
  /** The Postgres schema of the tables. @default 'ai_db' */
  schema?: string
  /**
   * Who makes the tables: this library, or the host app's own drizzle-kit.
   * @default 'library'
   */
  tables?: 'library' | 'host'
}

export interface MigrateResult {
  /** The files applied by this call, `folder/name`; empty when there was nothing to do. */
  applied: string[]
}

/** A Drizzle database that can open a transaction. */
export interface TransactionalDatabase extends DrizzleDatabase {
  transaction<T>(run: (tx: DrizzleDatabase) => Promise<T>): Promise<T>
}

interface MigrationFile {
  name: string
  sql: string
  hash: string
}

/**
 * Brings the database up to this version of the library. Safe to call at every start.
 *
 * @throws AiDbError DATABASE_TOO_NEW, MIGRATION_FAILED, PERMISSION_DENIED, DATABASE_UNREACHABLE.
 */
export async function migrate(
  db: TransactionalDatabase,
  options: MigrateOptions = {},
): Promise<MigrateResult> {
  refuseUnknownOptions('migrate()', options, ['schema', 'tables'])
  const { schema = 'ai_db', tables = 'library' } = options
  requireSchemaName(schema)
  requireWord('migrate()', 'tables', tables, ['library', 'host'])
  const files = await migrationFiles(schema)
  try {
    return await db.transaction((tx) => apply(tx, schema, files, tables))
  } catch (error) {
    throw mapDatabaseError(error)
  }
}

async function apply(
  tx: DrizzleDatabase,
  schema: string,
  files: MigrationFile[],
  owner: 'library' | 'host',
): Promise<MigrateResult> {
  const journal = `${quoteIdentifier(schema)}.${quoteIdentifier('_migrations')}`
  await run(
    tx,
    `select pg_advisory_xact_lock(hashtextextended('electric-ai-db migrate ${schema}', 0))`,
  )
  if (!(await exists(tx, 'select 1 from pg_namespace where nspname = $name', schema))) {
    await run(tx, `create schema ${quoteIdentifier(schema)}`)
  }
  if (!(await exists(tx, 'select 1 where to_regclass($name) is not null', journal))) {
    await run(
      tx,
      `create table ${journal} (name text primary key, hash text not null, applied_at timestamptz not null default now())`,
    )
  }
  const done = new Map(
    (await rows<{ name: string; hash: string }>(tx, `select name, hash from ${journal}`)).map(
      (row) => [row.name, row.hash],
    ),
  )
  refuseNewer(done, files, schema)
  if (owner === 'host') await requireHostTables(tx, schema)
  const applied: string[] = []
  for (const file of files) {
    if (done.has(file.name)) continue
    const skip = owner === 'host' && file.name.startsWith('drizzle/')
    if (!skip) await applyFile(tx, file, schema)
    await run(tx, `insert into ${journal} (name, hash) values ('${file.name}', '${file.hash}')`)
    if (!skip) applied.push(file.name)
  }
  return { applied }
}

async function applyFile(tx: DrizzleDatabase, file: MigrationFile, schema: string): Promise<void> {
  // One query a statement for drizzle/ (its own separator); migrations/ go as one simple query each.
  for (const text of file.sql.split('--> statement-breakpoint')) {
    try {
      await run(tx, text)
    } catch (error) {
      const mapped = mapDatabaseError(error)
      if (mapped instanceof AiDbError && mapped.code === 'PERMISSION_DENIED') throw mapped
      throw new AiDbError(
        'MIGRATION_FAILED',
        `${file.name} could not be applied to schema "${schema}": ${rootMessage(error)}. ` +
          "Nothing was changed. If your own drizzle-kit made the tables, pass tables: 'host' (CLI: --host-tables).",
        { cause: error },
      )
    }
  }
}

function refuseNewer(done: Map<string, string>, files: MigrationFile[], schema: string): void {
  const known = new Set(files.map((file) => file.name))
  const unknown = [...done.keys()].filter((name) => !known.has(name))
  if (unknown.length === 0) return
  throw new AiDbError(
    'DATABASE_TOO_NEW',
    `Schema "${schema}" holds migrations this version does not know (${unknown.join(', ')}). Upgrade electric-ai-db in this process.`,
  )
}

/** The columns this version needs, looked for in the tables a host's own migrations made. */
async function requireHostTables(tx: DrizzleDatabase, schema: string): Promise<void> {
  const [{ createTables }, { getTableColumns, getTableName, is }, { PgTable }] = await Promise.all([
    import('./schema.js'),
    import('drizzle-orm'),
    import('drizzle-orm/pg-core'),
  ])
  const found = await rows<{ name: string }>(
    tx,
    `select table_name || '.' || column_name as name from information_schema.columns where table_schema = '${schema.replaceAll("'", "''")}'`,
  )
  const present = new Set(found.map((row) => row.name))
  const missing = Object.values(createTables(schema)).flatMap((table) =>
    is(table, PgTable)
      ? Object.values(getTableColumns(table))
          .map((column) => `${getTableName(table)}.${column.name}`)
          .filter((name) => !present.has(name))
      : [],
  )
  if (missing.length === 0) return
  throw new AiDbError(
    'NOT_MIGRATED',
    `tables: 'host', but schema "${schema}" lacks ${missing.slice(0, 5).join(', ')}${missing.length > 5 ? ` and ${missing.length - 5} more` : ''}. ` +
      "Add `export * from 'electric-ai-db/schema'` to your schema file, run drizzle-kit generate and drizzle-kit migrate, then this.",
  )
}

async function migrationFiles(schema: string): Promise<MigrationFile[]> {
  const files: MigrationFile[] = []
  for (const folder of ['drizzle', 'migrations']) {
    const path = await folderOf(folder)
    const names = (await readdir(path)).filter((name) => name.endsWith('.sql')).sort()
    for (const name of names) {
      const text = await readFile(`${path}/${name}`, 'utf8')
      const hash = createHash('sha256').update(text).digest('hex')
      files.push({ name: `${folder}/${name}`, sql: renamed(text, folder, schema), hash })
    }
  }
  return files
}

/** `drizzle/` and `migrations/` stand at the package's root: above src/, and above dist/. */
async function folderOf(folder: string): Promise<string> {
  for (const up of ['..', '../..']) {
    const path = fileURLToPath(new URL(`${up}/${folder}`, import.meta.url))
    const there = await readdir(path).then(
      () => true,
      () => false,
    )
    if (there) return path
  }
  throw new AiDbError(
    'MIGRATION_FAILED',
    `The package's ${folder}/ folder is missing. Install electric-ai-db again; a bundler must keep the package external.`,
  )
}

function renamed(text: string, folder: string, schema: string): string {
  const named = text
    .replaceAll('"ai_db"', quoteIdentifier(schema))
    .replaceAll('"ai_db_publication"', quoteIdentifier(`${schema}_publication`))
    .replaceAll("'ai_db'", `'${schema.replaceAll("'", "''")}'`)
  // The schema exists already: the journal is in it.
  return folder === 'drizzle' ? named.replace(/CREATE SCHEMA "[^"]+";/, 'SELECT 1;') : named
}

function requireSchemaName(schema: string): void {
  if (/^[a-z_][a-z0-9_]{0,44}$/.test(schema) && !schema.startsWith('pg_')) return
  throw new AiDbError(
    'INVALID_OPTION',
    `schema must be 1 to 45 lower-case letters, digits and underscores and not begin with pg_, got '${schema}'.`,
    { field: 'schema' },
  )
}

const run = async (tx: DrizzleDatabase, text: string): Promise<unknown> => tx.execute(sql.raw(text))

async function rows<Row>(tx: DrizzleDatabase, text: string): Promise<Row[]> {
  const result = await run(tx, text)
  return (Array.isArray(result) ? result : (result as { rows: unknown[] }).rows) as Row[]
}

async function exists(tx: DrizzleDatabase, text: string, name: string): Promise<boolean> {
  return (await rows(tx, text.replace('$name', `'${name.replaceAll("'", "''")}'`))).length > 0
}

function rootMessage(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined
  return cause instanceof Error
    ? cause.message
    : String(error instanceof Error ? error.message : error)
}
