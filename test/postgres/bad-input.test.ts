/**
 * What people send and how they set it up, wrong in every way seen: the error names the field and the cure,
 * and nothing is half-written.
 */
import { createServer, type AddressInfo } from 'node:net'
import pg from 'pg'
import postgres from 'postgres'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { createStore } from '../../src/claims/store.js'
import { createSession } from '../../src/sessions/create-session.js'
import { sendMessage, type NewMessage } from '../../src/sessions/send-message.js'
import { drivers, dumpTables } from '../support/connections.js'
import type { connectNodePostgres, connectPostgresJs } from '../support/connections.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'

let database: TestDatabase
let empty: TestDatabase
let sessionId: string
beforeAll(async () => {
  database = await createTestDatabase()
  empty = await createTestDatabase({ migrated: false })
  sessionId = (await createSession(database.db)).id
})

type AnyDrizzle = ReturnType<typeof connectPostgresJs> | ReturnType<typeof connectNodePostgres>

const says = (pattern: RegExp) => expect.stringMatching(pattern) as string
const MIB = 1_048_576

/** Fails with that and leaves every table as it was. */
async function refuses(work: () => Promise<unknown>, error: object): Promise<void> {
  const before = await dumpTables(database.sql)
  await expect(work()).rejects.toMatchObject(error)
  expect(await dumpTables(database.sql)).toEqual(before)
}

const badMessages: readonly (readonly [string, Record<string, unknown>, string, RegExp])[] = [
  ['empty content', { content: '' }, 'content', /content is empty\. Write something/],
  ['blank content', { content: ' \n\t ' }, 'content', /content is empty/],
  ['no content', { content: undefined }, 'content', /must be a string, got undefined\. Pass text/],
  ['null content', { content: null }, 'content', /must be a string, got null/],
  ['a number as content', { content: 42 }, 'content', /must be a string, got number/],
  ['an object as content', { content: { text: 'hi' } }, 'content', /must be a string, got object/],
  [
    '10 MB of content',
    { content: 'x'.repeat(10 * MIB) },
    'content',
    /10485760 bytes, more than 1048576\. Shorten it, or store it elsewhere/,
  ],
  ['too many bytes in few characters', { content: '€'.repeat(MIB / 2) }, 'content', /bytes, more/],
  ['a NUL byte', { content: 'a\0b' }, 'content', /NUL character.*Remove it/],
  ['a lone surrogate', { content: 'a\ud800b' }, 'content', /lone surrogate.*toWellFormed/],
  ['no session', { sessionId: undefined }, 'sessionId', /sessionId must be a string/],
  ['an empty session id', { sessionId: '' }, 'sessionId', /1 to 200 characters/],
  ['a too long session id', { sessionId: 'x'.repeat(201) }, 'sessionId', /201 bytes, more/],
  ['a too long id', { id: 'x'.repeat(201) }, 'id', /201 bytes, more than 200/],
  ['an empty id', { id: '' }, 'id', /id is empty/],
  ['a too long agent', { targetAgent: 'x'.repeat(201) }, 'targetAgent', /more than 200/],
  ['an empty agent', { targetAgent: '' }, 'targetAgent', /targetAgent is empty/],
  ['a too long actor', { actorId: 'x'.repeat(201) }, 'actorId', /more than 200/],
  ['a NUL in the actor', { actorId: 'a\0' }, 'actorId', /NUL/],
  ['a too long request id', { requestId: 'x'.repeat(201) }, 'requestId', /more than 200/],
]

const badSessions: readonly (readonly [string, Record<string, unknown>, string, RegExp])[] = [
  ['an empty id', { id: '' }, 'id', /id is empty/],
  ['a too long id', { id: 'x'.repeat(201) }, 'id', /more than 200/],
  ['a number as id', { id: 7 }, 'id', /must be a string, got number/],
  ['a NUL in the title', { title: 'a\0b' }, 'title', /NUL/],
  ['a too long title', { title: 'x'.repeat(1001) }, 'title', /1001 bytes, more than 1000/],
  ['an empty key', { concurrencyKey: '' }, 'concurrencyKey', /concurrencyKey is empty/],
  ['a too high priority', { priority: 40_000 }, 'priority', /whole number.*-32767 to 32767/],
  ['half a priority', { priority: 1.5 }, 'priority', /whole number, got 1\.5/],
  ['metadata with a BigInt', { metadata: { n: 1n } }, 'metadata', /not JSON.*plain objects/],
  ['a word as priority', { priority: 'high' }, 'priority', /whole number, got high/],
]

describe.each(drivers)('%s', (_name, connect: (url: string) => AnyDrizzle) => {
  it.each(badMessages)('sendMessage refuses %s', async (_what, wrong, field, message) => {
    const db = connect(database.url)
    const given = { sessionId, content: 'hi', ...wrong } as unknown as NewMessage
    const error = { code: 'INVALID_INPUT', field, message: says(message) }
    await refuses(() => sendMessage(db, given), error)
  })

  it.each(badSessions)('createSession refuses %s', async (_what, wrong, field, message) => {
    const db = connect(database.url)
    const error = { code: 'INVALID_INPUT', field, message: says(message) }
    await refuses(() => createSession(db, wrong), error)
  })

  it('takes what is just within the limits', async () => {
    const db = connect(database.url)
    const id = `${_name}-${'x'.repeat(200 - _name.length - 1)}`
    await createSession(db, { id, title: 'x'.repeat(1000), priority: -5 })
    const sent = await sendMessage(db, { sessionId: id, content: 'x'.repeat(MIB) })
    const [row] = await database.sql`
      select octet_length(content) as bytes from ai_db.messages where id = ${sent.id}`
    expect(row).toEqual({ bytes: MIB })
  })

  it('keeps text as it was sent: quotes, backslashes, emoji, line ends', async () => {
    const content = 'a "b" \\ \'c\' $1 {d} \r\n 👩‍🚀 é\u0301 ?'
    const metadata = { 'k"ey': [content, null, 1.5, { deep: true }] }
    const { id } = await sendMessage(connect(database.url), { sessionId, content, metadata })
    const [row] = await database.sql`select content, metadata from ai_db.messages where id = ${id}`
    expect(row).toEqual({ content, metadata })
  })

  it('metadata that Postgres cannot store loses the character, not the message', async () => {
    const metadata = { 'a\0': 'b\0', c: ['\ud800'] }
    const { id } = await sendMessage(connect(database.url), { sessionId, content: 'hi', metadata })
    const [row] = await database.sql`select metadata from ai_db.messages where id = ${id}`
    expect(row).toEqual({ metadata: { 'a\uFFFD': 'b\uFFFD', c: ['\uFFFD'] } })
  })

  it('an unknown session is said to be so, and gets no message and no generation', async () => {
    await refuses(() => sendMessage(connect(database.url), { sessionId: 'gone', content: 'hi' }), {
      code: 'UNKNOWN_SESSION',
      field: 'sessionId',
      message: says(/does not exist.*Create the session first/),
    })
  })

  it('a duplicate id is said to be so: a retried send is not a second message', async () => {
    const db = connect(database.url)
    const id = `twice-${_name}`
    await sendMessage(db, { id, sessionId, content: 'hi' })
    const error = { code: 'DUPLICATE_ID', field: 'id', message: says(/exists already.*new id/) }
    await refuses(() => sendMessage(db, { id, sessionId, content: 'hi' }), error)
    await refuses(() => createSession(db, { id: sessionId }), error)
  })

  it('a refused port, a wrong password and a wrong database are told apart from each other', async () => {
    const port = await closedPort()
    const wrong = (change: (url: URL) => void) => {
      const url = new URL(database.url)
      change(url)
      return sendMessage(connect(url.toString()), { sessionId, content: 'hi' })
    }
    const error = (message: RegExp) => ({
      code: 'DATABASE_UNREACHABLE',
      field: 'db',
      message: says(message),
    })
    await expect(wrong((url) => (url.port = String(port)))).rejects.toMatchObject(
      error(/could not be reached .*Check the database URL and that Postgres is up/),
    )
    await expect(wrong((url) => (url.password = 'wrong'))).rejects.toMatchObject(
      error(/refused the connection \(.*password.*\)\. Check user, password and database name/),
    )
    await expect(wrong((url) => (url.pathname = '/no_such_db'))).rejects.toMatchObject(
      error(/refused the connection \(.*no_such_db.*\)/),
    )
  })

  it('a role without grants is told what it needs', async () => {
    const role = `role_${database.name}`
    await database.sql.unsafe(`create role ${role} login password 'secret'`)
    onTestFinished(async () => void (await database.sql.unsafe(`drop role ${role}`)))
    const url = new URL(database.url)
    url.username = role
    url.password = 'secret'
    const error = { code: 'PERMISSION_DENIED', message: says(/Grant it usage on the schema/) }
    const db = connect(url.toString())
    await refuses(() => sendMessage(db, { sessionId, content: 'hi' }), error)
    await refuses(() => createSession(db), error)
    await refuses(() => createStore(db).readGeneration('x'), error)
  })

  it('a database without the tables is told how to get them', async () => {
    const db = connect(empty.url)
    const error = { code: 'NOT_MIGRATED', message: says(/npx electric-ai-db migrate.*migrate\(\)/) }
    await expect(createSession(db)).rejects.toMatchObject(error)
    await expect(sendMessage(db, { sessionId, content: 'hi' })).rejects.toMatchObject(error)
    const agents = new Map([['assistant', 5]])
    const claim = createStore(db).claimGenerations({ workerId: 'w', agents, limit: 1 })
    await expect(claim).rejects.toMatchObject(error)
    const other = createSession(connect(database.url), {}, { schema: 'assistant' })
    await expect(other).rejects.toMatchObject({ code: 'NOT_MIGRATED' })
  })

  describe("inside the host's transaction", () => {
    it('commits with what the host writes, under the txid that is the row’s xmin', async () => {
      const db = connect(database.url)
      const { session, message } = await transaction(db, async (tx) => {
        const made = await createSession(tx)
        return {
          session: made,
          message: await sendMessage(tx, { sessionId: made.id, content: 'hi' }),
        }
      })
      const xmin = async (table: string, id: string) => {
        const [row] = await database.sql.unsafe<{ xmin: string }[]>(
          `select xmin::text from ai_db.${table} where id = '${id}'`,
        )
        return Number(row!.xmin)
      }
      expect(session.txid).toBe(message.txid)
      expect(await xmin('sessions', session.id)).toBe(message.txid)
      expect(await xmin('messages', message.id)).toBe(message.txid)
      const [generation] = await database.sql<{ xmin: string }[]>`
        select xmin::text from ai_db.generations where session_id = ${session.id}`
      expect(Number(generation!.xmin)).toBe(message.txid)
    })

    it('outside of one has the txid of its own statement', async () => {
      const { id, txid } = await sendMessage(connect(database.url), { sessionId, content: 'hi' })
      const [row] = await database.sql<{ xmin: string }[]>`
        select xmin::text from ai_db.messages where id = ${id}`
      expect(Number(row!.xmin)).toBe(txid)
    })

    it('rolls back with it: no session, no message, no generation', async () => {
      const db = connect(database.url)
      const work = () =>
        transaction(db, async (tx) => {
          const { id } = await createSession(tx)
          await sendMessage(tx, { sessionId: id, content: 'hi' })
          throw new Error('the host changed its mind')
        })
      await refuses(work, { message: 'the host changed its mind' })
    })

    it('has the same errors, and the host’s transaction is the only thing lost', async () => {
      const db = connect(database.url)
      const work = () =>
        transaction(db, async (tx) => {
          await createSession(tx)
          await sendMessage(tx, { sessionId: 'gone', content: 'hi' })
        })
      await refuses(work, { code: 'UNKNOWN_SESSION', field: 'sessionId' })
    })
  })
})

/** Both drivers' transactions by one signature. */
function transaction<T>(db: AnyDrizzle, run: (tx: AnyDrizzle) => Promise<T>): Promise<T> {
  return (db as ReturnType<typeof connectPostgresJs>).transaction((tx) => run(tx as never))
}

async function closedPort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

describe('a wrong db', () => {
  const wrong: readonly (readonly [string, () => unknown])[] = [
    ['null', () => null],
    ['undefined', () => undefined],
    ['an address', () => 'postgres://localhost/app'],
    ['an empty object', () => ({})],
    ['a bare postgres client', () => postgres('postgres://localhost/app')],
    ['a bare pg pool', () => new pg.Pool()],
    ['a Drizzle database of another driver', () => ({ $client: {}, execute: () => undefined })],
  ]

  it.each(wrong)('%s is refused, and told what to pass', async (_what, make) => {
    const error = {
      code: 'INVALID_INPUT',
      field: 'db',
      message: says(/drizzle-orm\/postgres-js.*Pass what drizzle\(\.\.\.\) returned/),
    }
    const db = make() as never
    await expect(createSession(db)).rejects.toMatchObject(error)
    await expect(sendMessage(db, { sessionId, content: 'hi' })).rejects.toMatchObject(error)
    expect(() => createStore(db)).toThrow(expect.objectContaining(error) as Error)
  })
})

describe('an agent nobody serves', () => {
  const send = (message: Partial<NewMessage>) =>
    sendMessage(database.db, { sessionId, content: 'hi', ...message })

  async function serve(...agents: string[]): Promise<void> {
    const store = createStore(database.db)
    const id = `serving-${agents.join()}`
    const worker = { id, name: 'test', agents, tools: [], slots: 1, locked: false, version: '0' }
    await store.registerWorker({ ...worker, leaseMs: 60_000 })
    onTestFinished(() => store.deregisterWorker(id))
  }

  it('is queued while no worker is up: nothing can be said about the name', async () => {
    const { id } = await send({ targetAgent: 'later' })
    expect(await createStore(database.db).generationForMessage(id)).toEqual(expect.any(String))
  })

  it('is an error while workers are up, and the near name is suggested', async () => {
    await serve('assistant', 'poet')
    await refuses(() => send({ targetAgent: 'asistant' }), {
      code: 'UNKNOWN_AGENT',
      field: 'targetAgent',
      message: says(
        /'asistant'; did you mean 'assistant'\?.*Served: assistant, poet.*start a worker/,
      ),
    })
    await refuses(() => send({ targetAgent: 'nobody' }), {
      code: 'UNKNOWN_AGENT',
      message: expect.not.stringMatching(/did you mean/) as string,
    })
    await send({ targetAgent: 'poet' })
  })

  it('is queued all the same with queueForUnknownAgent', async () => {
    await serve('assistant')
    await send({ targetAgent: 'later', queueForUnknownAgent: true })
  })

  it('counts no worker whose lease ran out', async () => {
    await serve('assistant')
    await database.sql`update ai_db.workers set lease_expires_at = now() - interval '1 s'`
    await send({ targetAgent: 'later' })
  })
})

describe('plain SQL', () => {
  const insert = (columns: Record<string, unknown>) => database.sql`
    insert into ai_db.messages ${database.sql({
      session_id: sessionId,
      role: 'user',
      actor_id: 'ann',
      target_agent: 'psql',
      content: 'hi',
      ...columns,
    })}`

  it('a message written by psql has its generation at once', async () => {
    await insert({ id: 'by-hand' })
    const generation = await createStore(database.db).generationForMessage('by-hand')
    expect(await createStore(database.db).readGeneration(generation!)).toMatchObject({
      status: 'pending',
      sessionId,
    })
  })

  it('several messages of one statement have one generation per session and agent', async () => {
    const { id } = await createSession(database.db)
    await database.sql`
      insert into ai_db.messages (session_id, role, actor_id, target_agent, content)
      select ${id}, 'user', 'ann', 'agent-' || n % 2, 'hi' from generate_series(1, 6) n`
    const rows =
      await database.sql`select agent_name from ai_db.generations where session_id = ${id}`
    expect(rows).toHaveLength(2)
  })

  it.each([
    ['10 MB of content', { content: 'x'.repeat(10 * MIB) }, 'messages_content_check'],
    ['blank content', { content: ' \n ' }, 'messages_content_check'],
    ['an unknown role', { role: 'robot' }, 'messages_role_check'],
    ['a too long id', { id: 'x'.repeat(201) }, 'messages_id_check'],
    ['an empty agent', { target_agent: '' }, 'messages_target_agent_check'],
  ])('%s is refused by the database itself', async (_what, columns, constraint_name) => {
    await refuses(async () => insert(columns), { code: '23514', constraint_name })
  })
})
