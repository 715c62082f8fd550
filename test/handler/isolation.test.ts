/**
 * No shape, stream or verb can be reached across sessions: every route is tried as somebody else, as nobody, and with
 * rows of another session under one's own; shapes are tried with everything a client can forge. The database,
 * the sync server and the stream server are real, so what leaks would be Bob's words.
 */
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { paths } from '../../src/contract/requests.js'
import { createSyncedDatabase, type SyncedDatabase } from '../support/synced-database.js'
import { createConversations, type Conversations } from './conversations.js'
import { createWorld, problemOf, type Answer, type World } from './handler-world.js'
import { methodOf, routeCases, type Prepared, type RouteCase } from './route-cases.js'

const SECRET = 'known-to-the-handler-only'

let database: SyncedDatabase
let world: World
let rows: Conversations

beforeAll(async () => {
  database = await createSyncedDatabase({ secret: SECRET })
  world = await createWorld({
    db: database.db,
    schema: database.schema,
    electric: { url: database.electricUrl, secret: database.electricSecret ?? SECRET },
    streams: { url: inject('streamsUrl') },
  })
  rows = await createConversations(database, database.schema)
})

const prepare = (one: RouteCase, owner: string) =>
  one.prepare(rows, owner, { url: world.url, sql: database.sql, schema: database.schema })

const ask = (one: RouteCase, { path, body }: Prepared, as: string) =>
  world.call(methodOf(one), path, { as, ...(body && { body }) })

/** Nothing of the inside, and nothing that is Bob's. */
function expectNoLeak({ text, headers }: Answer): void {
  const all = `${text}\n${[...headers].join('\n')}`
  expect(all).not.toContain(SECRET)
  expect(all).not.toContain('bob asks')
  expect(all).not.toContain(new URL(database.electricUrl).host)
  expect(all).not.toContain(new URL(inject('streamsUrl')).host)
  expect(all).not.toMatch(/\b(select|insert into|update .* set|constraint|PostgresError|ECONN)\b/i)
  expect(all).not.toMatch(/node_modules|\/src\/|\.ts:|\.js:|\n\s+at /)
}

/** An answer without what differs between any two. */
const comparable = ({ status, headers, text }: Answer) => {
  const { date: _, ...rest } = Object.fromEntries(headers)
  return { status, headers: rest, text }
}

/** Only routes that it is about have the test: one that is left out would be counted as skipped. */
const onlyIf = (applies: boolean) => (title: string, body: () => Promise<void>) => {
  if (applies) test(title, body)
}
const inSession = ({ route }: RouteCase) => onlyIf(route.includes(':sessionId'))
const ofRow = ({ route }: RouteCase) => onlyIf(/:(messageId|generationId|toolCallId)/.test(route))

describe.each(routeCases)('$route', (one) => {
  test('as nobody is refused before anything is read or written', async () => {
    const prepared = await prepare(one, 'bob')
    const before = await prepared.effect?.()
    const answer = await ask(one, prepared, '')
    expect(problemOf(answer)).toMatchObject({ status: 401, code: 'UNAUTHENTICATED' })
    expect(await prepared.effect?.()).toEqual(before)
    expectNoLeak(answer)
  })

  test('asks authorize for its verb, with the session it names', async () => {
    const prepared = await prepare(one, 'bob')
    world.asked.length = 0
    await ask(one, prepared, 'bob')
    const sessionId = /\/sessions\/([^/?]+)/.exec(prepared.path)?.[1]
    expect(world.asked).toHaveLength(1)
    expect(world.asked[0]!.verb).toBe(one.verb)
    if (sessionId && one.route.includes(':')) expect(world.asked[0]!.sessionId).toBe(sessionId)
  })

  inSession(one)(
    'of another’s session reads and writes nothing, and looks like one that is not there',
    async () => {
      const prepared = await prepare(one, 'bob')
      const before = await prepared.effect?.()
      const answer = await ask(one, prepared, 'alice')
      const nowhere = { ...prepared, path: prepared.path.replace(/bob-[^/?]+/, 'bob-nowhere') }
      const missing = await ask(one, nowhere, 'alice')
      expect(answer.status).toBe(404)
      expect(comparable(answer)).toEqual(comparable(missing))
      expect(await prepared.effect?.()).toEqual(before)
      expectNoLeak(answer)
    },
  )

  inSession(one)(
    'that is refused as not found has the words of what was looked for and is not there',
    async () => {
      const prepared = await prepare(one, 'bob')
      const denied = await ask(one, prepared, 'alice')
      const path = prepared.path.replace(/bob-[^/?]+/, 'alice-nowhere')
      const missing = await ask(one, { ...prepared, path }, 'alice')
      // Shapes and claims of no session are empty, and a delete finds nothing to do.
      if (missing.status !== 200) expect(comparable(denied)).toEqual(comparable(missing))
      else expect(one.route).toMatch(/shapes|claim|renew|DELETE/)
    },
  )

  ofRow(one)(
    'with another session’s row under one’s own finds nothing, as if it were not there',
    async () => {
      const prepared = await prepare(one, 'bob')
      const before = await prepared.effect?.()
      const mine = await rows.session('alice')
      const path = prepared.path.replace(/bob-[^/?]+/, mine)
      const answer = await ask(one, { ...prepared, path }, 'alice')
      const parts = path.split('/')
      parts[4] = 'invented'
      const invented = await ask(one, { ...prepared, path: parts.join('/') }, 'alice')
      expect(problemOf(answer)).toMatchObject({ status: 404, code: 'NOT_FOUND' })
      expect(comparable(answer)).toEqual(comparable(invented))
      expect(await prepared.effect?.()).toEqual(before)
      expectNoLeak(answer)
    },
  )
})

describe('the lists', () => {
  test.each(['GET /sessions', 'GET /shapes/sessions', 'POST /shapes/sessions'])(
    '%s has one’s own sessions and nobody else’s',
    async (route) => {
      const [mine, bobs] = [await rows.session('alice'), await rows.session('bob')]
      await database.sql.unsafe(
        `update ${database.schema}.sessions set owner_id = split_part(id, '-', 1)`,
      )
      const one = routeCases.find((known) => known.route === route)!
      const answer = await ask(one, await prepare(one, 'alice'), 'alice')
      expect(answer.status).toBe(200)
      expect(answer.text).toContain(mine)
      expect(answer.text).not.toContain(bobs)
    },
  )

  test('a session is listed for its owner, not for whoever made it', async () => {
    const team = await createWorld({
      db: database.db,
      schema: database.schema,
      authorize: () => ({ actor: 'dora', owner: 'team' }),
    })
    const { body } = await team.call('POST', paths.sessions(), { body: {} })
    const list = await team.call('GET', paths.sessions())
    expect(list.text).toContain((body as { id: string }).id)
    expect((await world.call('GET', paths.sessions(), { as: 'dora' })).body).toEqual({
      sessions: [],
    })
  })

  test('an id that somebody else took is refused, and not theirs to touch', async () => {
    const { sessionId } = await rows.settled('bob')
    const answer = await world.call('POST', paths.sessions(), { body: { id: sessionId } })
    expect(problemOf(answer)).toMatchObject({ status: 409, code: 'DUPLICATE_ID' })
    expectNoLeak(answer)
  })
})

describe('a forged shape request gets one’s own rows or none', () => {
  async function handleOfBobs(): Promise<{ handle: string; offset: string; sessionId: string }> {
    const { sessionId } = await rows.settled('bob')
    const path = `${paths.shape(sessionId, 'messages')}?offset=-1`
    const { headers, text } = await world.call('GET', path, { as: 'bob' })
    expect(text).toContain('bob asks')
    const offset = headers.get('electric-offset')!
    return { handle: headers.get('electric-handle')!, offset, sessionId }
  }

  const forgeries: [string, (bobs: string) => Record<string, string>][] = [
    ['where', () => ({ where: 'true' })],
    ['where and params', (bobs) => ({ where: '"session_id" = $1', params: `{"1":"${bobs}"}` })],
    ['params[1]', (bobs) => ({ 'params[1]': bobs })],
    ['params[2]', (bobs) => ({ 'params[2]': bobs })],
    ['table', () => ({ table: 'ai_db.sessions' })],
    ['another table', () => ({ table: 'pg_catalog.pg_authid' })],
    ['columns', () => ({ columns: 'id,provider_response_id' })],
    ['secret', () => ({ secret: '' })],
    ['source_id', () => ({ source_id: 'x', database_id: 'x' })],
    ['replica', () => ({ replica: 'default' })],
    ['a subset', () => ({ subset__where: 'true = true' })],
    ['a subset of bob’s', (bobs) => ({ subset__where: `"session_id" = '${bobs}'` })],
    ['a subset of anybody’s', () => ({ subset__where: '"session_id" <> \'\' or true' })],
    ['a subset that closes the filter', () => ({ subset__where: 'true) or (true' })],
    ['a subset with a comment', () => ({ subset__where: 'true or true --' })],
    [
      'subset params',
      (bobs) => ({ subset__where: '"session_id" = $1', subset__params: `{"1":"${bobs}"}` }),
    ],
    [
      'subset params out of order',
      (bobs) => ({ subset__where: '"id" = $2', subset__params: `{"2":"${bobs}"}` }),
    ],
    [
      'a subset of another order',
      () => ({ subset__order_by: '"id") union select (1', subset__limit: '1' }),
    ],
    ['a structured subset', () => ({ subset__where_expr: '{"type":"val","paramIndex":1}' })],
  ]
  test.each(forgeries)('%s', async (_what, forge) => {
    const { sessionId: bobs } = await rows.settled('bob')
    const { sessionId: mine } = await rows.settled('alice')
    const subset = Object.keys(forge('')).some((name) => name.startsWith('subset__'))
    const query = new URLSearchParams({ offset: subset ? 'now' : '-1', ...forge(bobs) })
    if (subset) query.set('log', 'changes_only')
    const answer = await world.call('GET', `${paths.shape(mine, 'messages')}?${query.toString()}`)
    expectNoLeak(answer)
    expect(answer.text).not.toContain(bobs)
    expect([200, 400]).toContain(answer.status)
    if (!subset) expect(answer.text).toContain('alice asks something secret')
  })

  test.each([
    { where: 'true = true' },
    { where: '"session_id" <> $1 or true', params: { '1': 'x' } },
    { where: 'true) or (true' },
    { where: '"session_id" = $1', params: { '1': 'bob' }, limit: 1, order_by: '"seq"' },
    { where: 'true', table: 'ai_db.sessions' },
    { where: 'true', columns: ['content'] },
    { params: { '1': 'bob', '1]&where=true&x[': 'x' } },
    { limit: 1, order_by: '"id"; select 1' },
  ])('a subset in the body: %j', async (body) => {
    const { sessionId: bobs } = await rows.settled('bob')
    const { sessionId: mine } = await rows.settled('alice')
    const forged = JSON.parse(JSON.stringify(body).replaceAll('"bob"', `"${bobs}"`)) as object
    const path = `${paths.shape(mine, 'messages')}?offset=now&log=changes_only`
    const answer = await world.call('POST', path, { body: forged })
    expectNoLeak(answer)
    expect(answer.text).not.toContain(bobs)
    expect([200, 400]).toContain(answer.status)
  })

  test('the handle and offset of another’s shape start one’s own anew', async () => {
    const bobs = await handleOfBobs()
    const { sessionId: mine } = await rows.settled('alice')
    for (const live of ['', '&live=true']) {
      const query = `offset=${bobs.offset}&handle=${bobs.handle}${live}`
      const answer = await world.call('GET', `${paths.shape(mine, 'messages')}?${query}`)
      expect(answer.status).toBe(409)
      expect(answer.headers.get('electric-handle')).not.toBe(bobs.handle)
      expectNoLeak(answer)
    }
  })

  test('polls in one request are each asked for: another’s among one’s own is refused alone', async () => {
    const bobs = await handleOfBobs()
    const { sessionId: mine } = await rows.settled('alice')
    world.asked.length = 0
    const answer = await world.call('POST', paths.live(), {
      body: {
        polls: [
          { sessionId: mine, shape: 'messages', query: 'offset=-1' },
          { sessionId: bobs.sessionId, shape: 'messages', query: 'offset=-1' },
          { shape: 'sessions', query: 'offset=-1&where=true&table=ai_db.messages' },
          { shape: 'messages', query: 'offset=-1' },
        ],
      },
    })
    expectNoLeak(answer)
    expect(world.asked.map(({ sessionId }) => sessionId)).toContain(bobs.sessionId)
    const { answers } = answer.body as { answers: { index: number; status: number }[] }
    for (const { index, status } of answers) {
      if (index === 1 || index === 3) expect(status).toBe(404)
    }
  })
})

describe('tools in browsers', () => {
  const claimed = async (owner: string, executorId: string) => {
    const { sessionId, toolCallId } = await rows.called(owner)
    const body = { executorId, tools: ['locate'] }
    await world.call('POST', paths.claimTools(sessionId), { as: owner, body })
    return { sessionId, toolCallId }
  }

  test('a claim finds nothing of another session', async () => {
    await rows.called('bob')
    const mine = await rows.session('alice')
    const body = { executorId: 'tab', tools: ['locate'], limit: 20 }
    const answer = await world.call('POST', paths.claimTools(mine), { body })
    expect(answer.body).toMatchObject({ toolCalls: [] })
  })

  test('another’s executor cannot be kept alive, nor its calls settled, by its id', async () => {
    const { sessionId, toolCallId } = await claimed('bob', 'tab')
    const table = `${database.schema}.tool_calls`
    const [row] = await database.sql.unsafe(`select worker_id from ${table} where id = $1`, [
      toolCallId,
    ])
    const seen = (row!['worker_id'] as string).replace('browser:', '')
    // Two people in one session: the id one sees in a synced row is of no use to the other.
    const shared = await createWorld({
      db: database.db,
      schema: database.schema,
      authorize: () => ({ actor: 'alice' }),
    })
    for (const executorId of ['tab', seen]) {
      const body = { executorId }
      const renewed = await shared.call('POST', paths.renewTools(sessionId), { body })
      expect(renewed.body).toMatchObject({ renewed: false })
      const settled = await shared.call('POST', paths.settleTool(sessionId, toolCallId), {
        body: { executorId, attempt: 1, outcome: { status: 'completed', result: 'forged' } },
      })
      expect(problemOf(settled)).toMatchObject({ status: 409, code: 'FENCED' })
    }
  })
})

describe('paths cannot be talked into another session', () => {
  test.each([
    ['/sessions/alice-1/../bob-1/shapes/messages', 'bob-1'],
    ['/sessions/alice-1/%2e%2e/bob-1/shapes/messages', 'bob-1'],
    ['/sessions/alice-1%2F..%2Fbob-1/shapes/messages', 'alice-1/../bob-1'],
    ['/sessions/alice-1%5C..%5Cbob-1/shapes/messages', 'alice-1\\..\\bob-1'],
    ['/sessions/bob-1%3Fx=alice-1/shapes/messages', 'bob-1?x=alice-1'],
    ['/sessions/bob-1%23alice-1/shapes/messages', 'bob-1#alice-1'],
    ['/sessions/alice-1%252Fbob-1/shapes/messages', 'alice-1%2Fbob-1'],
    ['/sessions/alice-1;bob-1/shapes/messages', 'alice-1;bob-1'],
    ['/sessions/alice-1+bob-1/shapes/messages', 'alice-1+bob-1'],
    ['/sessions/alice-1%20/shapes/messages', 'alice-1 '],
  ])(
    '%s is the session %s, once decoded, for authorize and for the shape',
    async (path, sessionId) => {
      world.asked.length = 0
      const answer = await world.call('GET', `${path}?offset=-1`)
      expect(world.asked.map((action) => action.sessionId)).toEqual([sessionId])
      expectNoLeak(answer)
      expect(answer.text).not.toContain('asks something secret')
    },
  )

  test.each([
    ['/sessions/alice-1/shapes/messages/', 404],
    ['//sessions/alice-1/shapes/messages', 404],
    ['/sessions//shapes/messages', 404],
    ['/sessions/alice-1//shapes/messages', 404],
    ['/sessions/alice-1/shapes%2Fmessages', 404],
    ['/sessions%2Falice-1/shapes/messages', 404],
    ['/%73essions/alice-1/shapes/messages', 404],
    ['/SESSIONS/alice-1/shapes/messages', 404],
    ['/sessions/alice-1/shapes/workers', 404],
    ['/sessions/alice-1/shapes/__proto__', 404],
    ['/sessions/alice-1/shapes/messages%00', 400],
    ['/sessions/alice-1%00/shapes/messages', 400],
    ['/sessions/alice-1%0d%0ax:y/shapes/messages', 400],
    ['/sessions/alice-%zz/shapes/messages', 400],
    ['/sessions/alice-%ff/shapes/messages', 400],
    [`/sessions/alice-${'1'.repeat(400)}/shapes/messages`, 400],
    ['/sessions/alice-1/generations/%2e%2e%2f%2e%2e/stream', 404],
    ['/v1/shape', 404],
  ])('%s is refused with %i', async (path, status) => {
    const answer = await world.call('GET', `${path}?offset=-1`)
    expect(answer.status).toBe(status)
    expect(answer.headers.get('content-type')).toBe('application/problem+json')
    expectNoLeak(answer)
  })
})

describe('what breaks inside stays inside', () => {
  test('an exception of authorize, no answer and half an answer are no grant', async () => {
    const answers: (() => unknown)[] = [
      () => {
        throw new Error(`select * from users; ${SECRET}`)
      },
      () => undefined,
      () => ({}),
      () => true,
      () => ({ actor: '' }),
      () => ({ actor: 7 }),
      () => ({ actor: 'a', owner: '' }),
      () => Promise.reject(new Error(SECRET)),
    ]
    for (const authorize of answers) {
      const open = await createWorld({
        db: database.db,
        schema: database.schema,
        authorize: authorize as never,
      })
      const answer = await open.call('GET', paths.sessions())
      expect(problemOf(answer)).toMatchObject({ status: 500, code: 'INTERNAL' })
      expect(open.errors).toHaveLength(1)
      expectNoLeak(answer)
    }
  })

  test('a database without the tables is told to the host, not to the client', async () => {
    const bare = await createWorld({ db: database.db, schema: 'not_there' })
    const answer = await bare.call('GET', paths.sessions())
    expect(problemOf(answer)).toMatchObject({ status: 500, code: 'INTERNAL' })
    expect(bare.errors).toMatchObject([{ code: 'NOT_MIGRATED' }])
    expectNoLeak(answer)
  })

  test('an id taken in another session is refused without the database’s words', async () => {
    const [mine, bobs] = [await rows.settled('alice'), await rows.settled('bob')]
    const path = paths.retry(mine.sessionId, mine.generationId)
    const answer = await world.call('POST', path, { body: { id: bobs.generationId } })
    expect(problemOf(answer)).toMatchObject({ status: 409, code: 'DUPLICATE_ID', field: 'id' })
    expect(problemOf(answer).detail).toBe('Another row has this id. Send a new id.')
    expectNoLeak(answer)
  })

  test('text that Postgres cannot store is refused in our words', async () => {
    const sessionId = await rows.session('alice')
    for (const content of ['a\u0000b', '\ud800']) {
      const body = { id: `x-${content.length}`, content }
      const answer = await world.call('POST', paths.messages(sessionId), { body })
      expect(problemOf(answer)).toMatchObject({ status: 400, code: 'INVALID_INPUT' })
      expectNoLeak(answer)
    }
  })

  test('JSON nested without end is refused or stored, and breaks nothing', async () => {
    const sessionId = await rows.session('alice')
    const deep = (depth: number) =>
      `{"id":"deep-${depth}","content":"x","metadata":{"a":${'['.repeat(depth)}${']'.repeat(depth)}}}`
    for (const depth of [1_000, 6_000, 20_000, 500_000]) {
      const answer = await world.call('POST', paths.messages(sessionId), { raw: deep(depth) })
      expect([200, 400]).toContain(answer.status)
      expectNoLeak(answer)
    }
  })
})
