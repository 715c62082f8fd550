/** migrate(): fresh, again, at once, beside a host's own migrations, and every way it can be refused. */
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import postgres from 'postgres'
import { describe, expect, inject, it, onTestFinished } from 'vitest'
import { toDatabase } from '../../src/internal/database.js'
import { migrate } from '../../src/migrate.js'
import { registerWorker, setSleeping } from '../../src/claims/workers.js'
import { createSession } from '../../src/sessions/create-session.js'
import { sendMessage } from '../../src/sessions/send-message.js'
import { connectPostgresJs, drivers, waitUntil, type Sql } from '../support/connections.js'
import { withDatabase } from '../support/database.js'

interface EmptyDatabase {
  url: string
  sql: Sql
  /** The address of a role of its own, which may do nothing but connect. */
  asRole(): Promise<{ url: string; role: string }>
}

async function emptyDatabase(): Promise<EmptyDatabase> {
  const adminUrl = inject('databaseUrl')
  const admin = postgres(adminUrl, { max: 1, onnotice: () => undefined })
  const name = `test_${randomBytes(6).toString('hex')}`
  await admin.unsafe(`create database ${name} template template0`)
  const roles: string[] = []
  onTestFinished(async () => {
    await admin.unsafe(`drop database ${name} with (force)`)
    for (const role of roles) await admin.unsafe(`drop role ${role}`)
    await admin.end()
  })
  const url = withDatabase(adminUrl, name)
  const sql = postgres(url, { max: 2, onnotice: () => undefined })
  onTestFinished(() => sql.end({ timeout: 0 }))
  const asRole = async () => {
    const role = `role_${randomBytes(6).toString('hex')}`
    roles.push(role)
    await admin.unsafe(`create role ${role} login password 'secret'`)
    const own = new URL(url)
    own.username = role
    own.password = 'secret'
    return { url: own.toString(), role }
  }
  return { url, sql, asRole }
}

const files = ['drizzle', 'migrations'].flatMap((folder) =>
  readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .map((name) => `${folder}/${name}`),
)

/** What a host's `drizzle-kit migrate` does with the same tables. */
async function makeHostTables(sql: Sql): Promise<void> {
  for (const file of files.filter((name) => name.startsWith('drizzle/'))) {
    for (const text of readFileSync(file, 'utf8').split('--> statement-breakpoint')) {
      await sql.unsafe(text)
    }
  }
}

/** Everything a schema holds, by kind and name. */
async function objectsOf(sql: Sql, schema: string): Promise<string[]> {
  const rows = await sql<{ object: string }[]>`
    select 'relation ' || relname as object from pg_class where relnamespace = to_regnamespace(${schema})
    union all select 'function ' || proname from pg_proc where pronamespace = to_regnamespace(${schema})
    union all select 'trigger ' || t.tgname from pg_trigger t join pg_class c on c.oid = t.tgrelid
      where not t.tgisinternal and c.relnamespace = to_regnamespace(${schema})
    union all select 'constraint ' || conname from pg_constraint where connamespace = to_regnamespace(${schema})
    order by 1`
  return rows.map((row) => row.object)
}

describe.each(drivers)('%s', (_name, connect) => {
  it('makes an empty database ready, and finds nothing to do the second time', async () => {
    const { url, sql } = await emptyDatabase()
    const db = connect(url)
    expect(await migrate(db)).toEqual({ applied: files })
    const objects = await objectsOf(sql, 'ai_db')
    expect(await migrate(db)).toEqual({ applied: [] })
    expect(await objectsOf(sql, 'ai_db')).toEqual(objects)
    const { id } = await createSession(db)
    await sendMessage(db, { sessionId: id, content: 'hi' })
    expect(await sql`select agent_name from ai_db.generations`).toEqual([
      { agent_name: 'assistant' },
    ])
  })

  it.each([2, 5])(
    '%i that start at once: one applies, the others wait and find it done',
    async (count) => {
      const { url } = await emptyDatabase()
      const started = Array.from({ length: count }, () => migrate(connect(url, 1)))
      const applied = (await Promise.all(started)).map((result) => result.applied.length)
      expect(applied.toSorted((a, b) => a - b)).toEqual([...Array(count - 1).fill(0), files.length])
    },
  )

  it('a role that may not create is told what to grant, and nothing is half-written', async () => {
    const { asRole, sql } = await emptyDatabase()
    const { url } = await asRole()
    await expect(migrate(connect(url))).rejects.toMatchObject({
      code: 'PERMISSION_DENIED',
      message: expect.stringMatching(/Grant it .* migrate\(\) needs an owner/) as string,
    })
    expect(await objectsOf(sql, 'ai_db')).toEqual([])
    expect(await sql`select 1 from pg_namespace where nspname = 'ai_db'`).toHaveLength(0)
  })

  it('a failure half-way leaves nothing behind', async () => {
    const { url, sql } = await emptyDatabase()
    // The last file fails: its publication is there already.
    await sql`create publication ai_db_publication`
    await expect(migrate(connect(url))).rejects.toMatchObject({
      code: 'MIGRATION_FAILED',
      message: expect.stringMatching(
        /0004_publication\.sql.*already exists.*Nothing was changed/,
      ) as string,
    })
    expect(await sql`select 1 from pg_namespace where nspname = 'ai_db'`).toHaveLength(0)
  })
})

describe('roles', () => {
  it('an owner that is no superuser can migrate and use it', async () => {
    const { url: adminUrl, sql, asRole } = await emptyDatabase()
    const { url, role } = await asRole()
    await sql.unsafe(`grant create on database ${new URL(adminUrl).pathname.slice(1)} to ${role}`)
    const db = connectPostgresJs(url)
    expect((await migrate(db)).applied).toEqual(files)
    const { id } = await createSession(db)
    await sendMessage(db, { sessionId: id, content: 'hi' })
  })

  it('a role that does not own the schema changes nothing in it', async () => {
    const { sql, asRole } = await emptyDatabase()
    const { url } = await asRole()
    await makeHostTables(sql)
    const before = await objectsOf(sql, 'ai_db')
    await expect(migrate(connectPostgresJs(url), { tables: 'host' })).rejects.toMatchObject({
      code: 'PERMISSION_DENIED',
    })
    expect(await objectsOf(sql, 'ai_db')).toEqual(before)
  })
})

describe('another schema name', () => {
  it('holds every object, and nothing is or says ai_db', async () => {
    const { url, sql } = await emptyDatabase()
    const db = connectPostgresJs(url)
    await migrate(db, { schema: 'assistant' })
    expect(await objectsOf(sql, 'ai_db')).toEqual([])
    const bodies = await sql`
      select proname from pg_proc where pronamespace = 'assistant'::regnamespace and prosrc like '%ai_db%'`
    expect(bodies).toEqual([])
    const publications = await sql`select distinct pubname, schemaname from pg_publication_tables`
    expect(publications).toEqual([{ pubname: 'assistant_publication', schemaname: 'assistant' }])
    await migrate(db)
    expect(await objectsOf(sql, 'assistant')).toEqual(await objectsOf(sql, 'ai_db'))
  })

  it('lives beside the default one: rows, claims and the doorbell do not meet', async () => {
    const { url, sql } = await emptyDatabase()
    const db = connectPostgresJs(url)
    const heard: string[] = []
    for (const schema of ['ai_db', 'assistant']) {
      await migrate(db, { schema })
      const database = toDatabase(db, { schema })
      const onNotify = (payload: string) => heard.push(`${schema} ${payload}`)
      const session = await database.openSession({ channel: schema, onNotify })
      onTestFinished(() => session.close())
      const worker = { id: schema, name: 'test', agents: ['assistant'], tools: [], slots: 1 }
      await registerWorker(database, { ...worker, locked: false, leaseMs: 60_000, version: '0' })
      await setSleeping(database, schema, true)
    }
    const { id } = await createSession(db, {}, { schema: 'assistant' })
    await sendMessage(db, { sessionId: id, content: 'hi' }, { schema: 'assistant' })
    await waitUntil('the doorbell rang', () => heard.includes('assistant generation:assistant'))
    expect(heard.filter((line) => line.endsWith('generation:assistant'))).toEqual([
      'assistant generation:assistant',
    ])
    expect(await sql`select 1 from ai_db.generations`).toHaveLength(0)
    expect(await sql`select 1 from assistant.generations`).toHaveLength(1)
  })

  it.each(['', 'Assistant', 'a b', 'a"b', "a'b", 'pg_mine', '1st', 'x'.repeat(46), 'a;drop'])(
    '%j is refused before anything is sent',
    async (schema) => {
      const db = connectPostgresJs('postgres://nobody@127.0.0.1:1/none')
      await expect(migrate(db, { schema })).rejects.toMatchObject({
        code: 'INVALID_OPTION',
        field: 'schema',
      })
    },
  )
})

describe('options', () => {
  it.each([
    [{ shema: 'x' }, 'shema', "did you mean 'schema'"],
    [{ tables: 'hosts' }, 'tables', "did you mean 'host'"],
  ])('%j is an error that names the field, not a silent default', async (options, field, cure) => {
    const db = connectPostgresJs('postgres://nobody@127.0.0.1:1/none')
    await expect(migrate(db, options as never)).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      field,
      message: expect.stringContaining(cure) as string,
    })
  })
})

describe('a newer database', () => {
  it('is refused by name, and left alone', async () => {
    const { url, sql } = await emptyDatabase()
    const db = connectPostgresJs(url)
    await migrate(db)
    await sql`insert into ai_db._migrations (name, hash) values ('migrations/9999_future.sql', 'x')`
    const before = await objectsOf(sql, 'ai_db')
    for (const tables of ['library', 'host'] as const) {
      await expect(migrate(db, { tables })).rejects.toMatchObject({
        code: 'DATABASE_TOO_NEW',
        message: expect.stringMatching(/9999_future\.sql.*Upgrade electric-ai-db/) as string,
      })
    }
    expect(await objectsOf(sql, 'ai_db')).toEqual(before)
  })
})

describe("tables made by the host's own migrations", () => {
  it('get guards, triggers and publication, and end equal to those of the library', async () => {
    const [host, library] = [await emptyDatabase(), await emptyDatabase()]
    await makeHostTables(host.sql)
    const db = connectPostgresJs(host.url)
    const { applied } = await migrate(db, { tables: 'host' })
    expect(applied).toEqual(files.filter((name) => name.startsWith('migrations/')))
    expect(await migrate(db, { tables: 'host' })).toEqual({ applied: [] })
    await migrate(connectPostgresJs(library.url))
    expect(await objectsOf(host.sql, 'ai_db')).toEqual(await objectsOf(library.sql, 'ai_db'))
  })

  it('that are older than this version are refused, the missing column named', async () => {
    const { url, sql } = await emptyDatabase()
    await makeHostTables(sql)
    await sql`alter table ai_db.generations drop column finish_reason`
    await expect(migrate(connectPostgresJs(url), { tables: 'host' })).rejects.toMatchObject({
      code: 'NOT_MIGRATED',
      message: expect.stringMatching(
        /lacks generations\.finish_reason\. .*drizzle-kit generate/,
      ) as string,
    })
    expect(await sql`select to_regclass('ai_db._migrations') as journal`).toEqual([
      { journal: null },
    ])
  })

  it('that are not there at all are asked for, and nothing is half-written', async () => {
    const { url, sql } = await emptyDatabase()
    await expect(migrate(connectPostgresJs(url), { tables: 'host' })).rejects.toMatchObject({
      code: 'NOT_MIGRATED',
      message: expect.stringMatching(
        /and \d+ more.*export \* from 'electric-ai-db\/schema'/,
      ) as string,
    })
    expect(await sql`select 1 from pg_namespace where nspname = 'ai_db'`).toHaveLength(0)
  })

  it('taken for the library’s own give an error with the cure, and stay as they were', async () => {
    const { url, sql } = await emptyDatabase()
    await makeHostTables(sql)
    const before = await objectsOf(sql, 'ai_db')
    await expect(migrate(connectPostgresJs(url))).rejects.toMatchObject({
      code: 'MIGRATION_FAILED',
      message: expect.stringMatching(
        /already exists.*pass tables: 'host' \(CLI: --host-tables\)/,
      ) as string,
    })
    expect(await objectsOf(sql, 'ai_db')).toEqual(before)
  })
})

describe('logical replication', () => {
  const synced = ['approvals', 'chunks', 'generations', 'messages', 'sessions', 'tool_calls']

  it('carries the tables that clients see, whole rows of them, and no lease or cursor', async () => {
    const { url, sql } = await emptyDatabase()
    await migrate(connectPostgresJs(url))
    const published = await sql<{ tablename: string }[]>`
      select tablename from pg_publication_tables where pubname = 'ai_db_publication' order by 1`
    expect(published.map((row) => row.tablename)).toEqual(synced)
    const full = await sql<{ relname: string }[]>`
      select relname from pg_class where relnamespace = 'ai_db'::regnamespace and relkind = 'r'
        and relreplident = 'f' order by 1`
    expect(full.map((row) => row.relname)).toEqual(synced)
  })
})

describe('an unreachable database', () => {
  it.each(drivers)('is said to be so (%s)', async (_name, connect) => {
    await expect(migrate(connect('postgres://nobody@127.0.0.1:1/none'))).rejects.toMatchObject({
      code: 'DATABASE_UNREACHABLE',
      field: 'db',
    })
  })
})
