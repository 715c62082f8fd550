/** Each verb over HTTP: what it does, what a repeat of it does, and what is said to a body that does not fit. */
import { beforeAll, describe, expect, test } from 'vitest'
import { paths } from '../../src/contract/requests.js'
import { routes } from '../../src/handler/routes.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { createConversations, type Conversations } from './conversations.js'
import { createWorld, fresh, problemOf, type World } from './handler-world.js'
import { methodOf, routeCases, writeCases, type RouteCase } from './route-cases.js'

let database: TestDatabase
let world: World
let rows: Conversations

const MAX_BODY = 40_000

beforeAll(async () => {
  database = await createTestDatabase()
  world = await createWorld({ db: database.db, maxBodyBytes: MAX_BODY })
  rows = await createConversations(database)
})

const prepare = (one: RouteCase, owner = 'alice') =>
  one.prepare(rows, owner, { url: world.url, sql: database.sql, schema: 'ai_db' })

test('every route there is stands in the table of cases, and every path of the contract is a route', () => {
  const known = routes.map(({ method, pattern }) => `${method} ${pattern}`)
  expect(routeCases.map(({ route }) => route).sort()).toEqual(known.sort())
  const patterns = new Set(routes.map(({ pattern }) => pattern.replaceAll(/:\w+/g, ':')))
  for (const path of Object.values(paths) as ((...parts: string[]) => string)[]) {
    expect(patterns).toContain(decodeURIComponent(path(':', ':')))
  }
})

describe.each(writeCases)('$route', (one) => {
  test('writes once, and says in which transaction', async () => {
    const { path, body, effect } = await prepare(one)
    const before = await effect!()
    const answer = await world.call(methodOf(one), path, body && { body })
    expect(answer.text).not.toContain('problem')
    expect(answer.status).toBe(200)
    expect(answer.body).toMatchObject({ txid: expect.any(Number) as number })
    expect(answer.headers.get('cache-control')).toBe('no-store')
    expect(world.asked.at(-1)).toMatchObject({ verb: one.verb })
    if (!one.route.endsWith('/renew')) expect(await effect!()).not.toEqual(before)
  })

  test('a repeat answers like the first time under a new txid, and changes nothing', async () => {
    const { path, body, effect } = await prepare(one)
    const said = body && { body }
    const first = (await world.call(methodOf(one), path, said)).body as { txid: number }
    const after = await effect!()
    const again = await world.call(methodOf(one), path, said)
    expect(again.status).toBe(200)
    const { txid, ...rest } = again.body as { txid: number }
    expect(txid).not.toBe(first.txid)
    if (one.repeats !== false) expect({ ...rest, txid: first.txid }).toEqual(first)
    expect(await effect!()).toEqual(after)
  })
})

describe.each(routeCases.filter((one) => one.wrong))('$route', (one) => {
  const { field, body } = one.wrong!

  async function refused(said: Parameters<World['call']>[2], status: number) {
    const { path, effect } = await prepare(one)
    const before = await effect?.()
    const asked = world.asked.length
    const answer = await world.call(methodOf(one), path, said)
    expect(answer.status).toBe(status)
    expect(answer.headers.get('content-type')).toBe('application/problem+json')
    expect(await effect?.()).toEqual(before)
    expect(world.asked.length).toBe(asked)
    return problemOf(answer)
  }

  test(`${field} of the wrong kind is refused by name, and nothing is written`, async () => {
    expect(await refused({ body }, 400)).toMatchObject({ code: 'INVALID_INPUT', field })
  })

  test('a body that is cut off or no object is refused', async () => {
    await refused({ raw: '{"id": "x", ' }, 400)
    await refused({ raw: '[1]' }, 400)
    await refused({ raw: 'null' }, 400)
    await refused({ raw: new Uint8Array([0x22, 0xff, 0x22]) }, 400)
  })

  test('an unknown field is refused by name', async () => {
    const problem = await refused({ body: { ...(await prepare(one)).body, sesionId: 'x' } }, 400)
    expect(problem).toMatchObject({ code: 'INVALID_INPUT', field: 'sesionId' })
  })

  test('a body that another site could make a browser send is refused', async () => {
    const raw = JSON.stringify((await prepare(one)).body)
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', '']) {
      const said = { raw, headers: { 'content-type': type } }
      expect(await refused(said, 415)).toMatchObject({ code: 'INVALID_INPUT' })
    }
  })

  test('a body over the limit is refused, announced or not', async () => {
    const large = JSON.stringify({ ...(await prepare(one)).body, reason: 'x'.repeat(MAX_BODY) })
    expect(await refused({ raw: large }, 413)).toMatchObject({ code: 'TOO_LARGE' })
    const chunked = new ReadableStream({
      start(controller) {
        for (let sent = 0; sent < large.length; sent += 10_000) {
          controller.enqueue(new TextEncoder().encode(large.slice(sent, sent + 10_000)))
        }
        controller.close()
      },
    })
    expect(await refused({ raw: chunked }, 413)).toMatchObject({ code: 'TOO_LARGE' })
  })
})

test('every route that takes a body is tried with one that does not fit', () => {
  const without = routeCases.filter(({ route, wrong }) => !wrong && !/^(GET|DELETE) /.test(route))
  // It takes an empty one.
  expect(without.map(({ verb }) => verb)).toEqual(['cancel'])
})

describe('Idempotency-Key', () => {
  const send = (headers: Record<string, string>, body: object, sessionId: string) =>
    world.call('POST', paths.messages(sessionId), { headers, body: { content: 'Hi', ...body } })

  test('stands in for the id, bare or in quotes, and a repeat by it writes nothing', async () => {
    const sessionId = await rows.session('alice')
    const key = fresh('key')
    const first = await send({ 'idempotency-key': key }, {}, sessionId)
    const second = await send({ 'idempotency-key': `"${key}"` }, {}, sessionId)
    const third = await send({}, { id: key }, sessionId)
    for (const { body } of [first, second, third]) expect(body).toMatchObject({ id: key })
    const found = await database.sql`select id from ai_db.messages where session_id = ${sessionId}`
    expect(found.map(({ id }) => id as string)).toEqual([key])
  })

  test('one that differs from the id is refused: neither is written', async () => {
    const sessionId = await rows.session('alice')
    const answer = await send({ 'idempotency-key': fresh('key') }, { id: fresh('m') }, sessionId)
    expect(problemOf(answer)).toMatchObject({ status: 400, code: 'INVALID_INPUT', field: 'id' })
    const found = await database.sql`select id from ai_db.messages where session_id = ${sessionId}`
    expect(found).toHaveLength(0)
  })
})

describe('what a verb is told', () => {
  test('a new row cannot be named like a dot segment: its stream’s address would be another’s', async () => {
    const { sessionId, generationId } = await rows.settled('alice')
    for (const id of ['.', '..']) {
      const path = paths.retry(sessionId, generationId)
      const answer = await world.call('POST', path, { body: { id } })
      expect(problemOf(answer)).toMatchObject({ status: 400, code: 'INVALID_INPUT', field: 'id' })
    }
  })

  test('the author of a message, an edit and a vote is the actor, whoever the body says', async () => {
    const { sessionId, messageId } = await rows.settled('alice')
    const body = { id: fresh('message'), content: 'Rather this' }
    await world.call('PATCH', paths.message(sessionId, messageId), { body })
    const [row] = await database.sql`select actor_id from ai_db.messages where id = ${body.id}`
    expect(row!['actor_id']).toBe('alice')
    const forged = { ...body, actorId: 'bob' }
    const answer = await world.call('PATCH', paths.message(sessionId, messageId), { body: forged })
    expect(problemOf(answer)).toMatchObject({ status: 400, field: 'actorId' })
  })

  test('the same id with another content is refused, not taken for a repeat', async () => {
    const sessionId = await rows.session('alice')
    const id = fresh('message')
    await world.call('POST', paths.messages(sessionId), { body: { id, content: 'One' } })
    const answer = await world.call('POST', paths.messages(sessionId), {
      body: { id, content: 'Two' },
    })
    expect(problemOf(answer)).toMatchObject({ status: 409, code: 'DUPLICATE_ID', field: 'id' })
  })

  test('an agent that nobody serves is refused by name, without the names of others', async () => {
    const sessionId = await rows.session('alice')
    const body = { id: fresh('message'), content: 'Hi', agent: 'asistant' }
    const answer = await world.call('POST', paths.messages(sessionId), { body })
    expect(problemOf(answer)).toMatchObject({ status: 422, code: 'UNKNOWN_AGENT', field: 'agent' })
    expect(answer.text).not.toContain(rows.agent)
  })

  test('a vote on other arguments than the ones shown changes nothing', async () => {
    const { sessionId, toolCallId } = await rows.called('alice', 1)
    const body = { id: fresh('vote'), argsHash: 'f'.repeat(64) }
    const answer = await world.call('POST', paths.approve(sessionId, toolCallId), { body })
    expect(problemOf(answer)).toMatchObject({ status: 409, code: 'STALE_APPROVAL' })
  })

  test('a run that goes on cannot be retried, and the answer says what to do', async () => {
    const { sessionId, generationId } = await rows.running('alice')
    const body = { id: fresh('generation') }
    const answer = await world.call('POST', paths.retry(sessionId, generationId), { body })
    expect(problemOf(answer)).toMatchObject({ status: 409, code: 'ILLEGAL_TRANSITION' })
    expect(problemOf(answer).detail).toContain('Cancel it first')
  })

  test('a claimed call is what the executor needs to run it', async () => {
    const { sessionId, generationId, toolCallId } = await rows.called('alice')
    const body = { executorId: 'tab', tools: ['locate'], limit: 5 }
    const answer = await world.call('POST', paths.claimTools(sessionId), { body })
    expect(answer.body).toMatchObject({
      toolCalls: [
        { id: toolCallId, generationId, name: 'locate', args: { of: 'alice' }, attempt: 1 },
      ],
    })
  })

  test('where a run stands, and what it said', async () => {
    const { sessionId, generationId } = await rows.settled('alice')
    const answer = await world.call('GET', paths.generation(sessionId, generationId))
    expect(answer.body).toEqual({
      id: generationId,
      status: 'completed',
      attempt: 1,
      error: null,
      cancelReason: null,
      content: 'done',
    })
  })

  test('the list has the owner’s sessions, as many as asked for', async () => {
    const owned = []
    for (let count = 0; count < 3; count += 1) {
      const answer = await world.call('POST', paths.sessions(), { as: 'carol', body: {} })
      owned.unshift((answer.body as { id: string }).id)
    }
    const all = await world.call('GET', paths.sessions(), { as: 'carol' })
    const ids = ({ body }: { body: unknown }) =>
      (body as { sessions: { id: string }[] }).sessions.map(({ id }) => id)
    expect(ids(all)).toEqual(owned)
    expect(ids(await world.call('GET', '/sessions?limit=2', { as: 'carol' }))).toHaveLength(2)
    expect((await world.call('GET', '/sessions?limit=all', { as: 'carol' })).status).toBe(400)
  })
})
