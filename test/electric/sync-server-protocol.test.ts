/** The dev sync server's answers, one by one: what the client's source demands of a server. */
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startSyncServer } from '../../src/dev.js'
import { createTestDatabase } from '../support/database.js'
import type { TestDatabase } from '../support/database.js'

let database: TestDatabase
let url: string
const onLog: string[] = []

beforeAll(async () => {
  database = await createTestDatabase({ migrated: false })
  await database.sql.unsafe(`
    create table items (id int primary key, list text, n int);
    create table secrets (id int primary key, word text);
    create view items_view as select * from items;
    insert into items select i, case when i < 3 then 'x' else 'y' end, i from generate_series(1, 4) i`)
})

async function serve(options: Partial<Parameters<typeof startSyncServer>[0]> = {}) {
  const server = await startSyncServer({
    databaseUrl: database.url,
    port: 0,
    longPollMs: 300,
    onLog: (line) => onLog.push(line),
    ...options,
  })
  onTestFinished(() => server.stop())
  url = `${server.url}/v1/shape`
  return server
}

interface Answer {
  status: number
  headers: Headers
  body: any
  handle: string
  offset: string
}

async function ask(query: Record<string, string>, init?: RequestInit): Promise<Answer> {
  const response = await fetch(`${url}?${new URLSearchParams({ table: 'items', ...query })}`, init)
  const text = await response.text()
  const { status, headers } = response
  const handle = headers.get('electric-handle') ?? ''
  const offset = headers.get('electric-offset') ?? ''
  return { status, headers, handle, offset, body: text === '' ? undefined : JSON.parse(text) }
}

const begin = (query: Record<string, string> = {}) => ask({ offset: '-1', ...query })
const controls = (answer: Answer) =>
  answer.body.flatMap(({ headers }: any) => headers.control ?? [])
const post = (body: unknown): RequestInit => ({ method: 'POST', body: JSON.stringify(body) })

describe('a shape, from its beginning', () => {
  test('the snapshot: rows, snapshot-end, every header the client requires, none that says up to date', async () => {
    await serve()
    const answer = await begin()
    expect(answer.status).toBe(200)
    expect(answer.body[0]).toEqual({
      key: '"public"."items"/"1"',
      value: { id: '1', list: 'x', n: '1' },
      headers: { operation: 'insert', relation: ['public', 'items'] },
    })
    expect(answer.body.at(-1).headers).toEqual({
      control: 'snapshot-end',
      xmin: expect.stringMatching(/^\d+$/),
      xmax: expect.stringMatching(/^\d+$/),
      // Transactions of other databases count as well.
      xip_list: expect.any(Array),
    })
    expect(JSON.parse(answer.headers.get('electric-schema')!)).toEqual({
      id: { type: 'int4', not_null: true, pk_index: 0 },
      list: { type: 'text' },
      n: { type: 'int4' },
    })
    expect(answer.offset).toMatch(/^\d+_\d+$/)
    expect(answer.headers.has('electric-up-to-date')).toBe(false)
    expect(answer.headers.get('cache-control')).toContain('max-age=604800')
    expect(answer.headers.get('access-control-allow-origin')).toBe('*')
    expect(answer.headers.get('access-control-expose-headers')).toContain('electric-offset')
  })

  test('catch-up, live with changes, live without: each says where to go on', async () => {
    await serve()
    const { handle, offset } = await begin()
    const idle = await ask({ handle, offset })
    expect(controls(idle)).toEqual(['up-to-date'])
    expect(idle.headers.has('electric-up-to-date')).toBe(true)
    const poll = ask({ handle, offset, live: 'true', cursor: '' })
    await database.sql`update items set n = n + 10 where id = 1`
    const changed = await poll
    expect(changed.body[0]).toMatchObject({
      value: { id: '1', n: '11' },
      headers: {
        operation: 'update',
        txids: [expect.any(Number)],
        lsn: expect.stringMatching(/^\d+$/),
        op_position: 0,
        last: true,
      },
    })
    expect(controls(changed)).toEqual(['up-to-date'])
    expect(changed.body[1].headers.global_last_seen_lsn).toBe(changed.body[0].headers.lsn)
    const cursor = changed.headers.get('electric-cursor')!
    const empty = await ask({ handle, offset: changed.offset, live: 'true', cursor })
    expect([empty.status, controls(empty)]).toEqual([200, ['up-to-date']])
    expect(empty.headers.get('electric-cursor')).not.toBe(cursor)
    expect((await ask({ handle, offset })).body).toHaveLength(2)
  })

  test('offset=now has no rows and goes on from here', async () => {
    await serve()
    const now = await ask({ offset: 'now', log: 'changes_only' })
    expect(controls(now)).toEqual(['up-to-date'])
    expect(now.body).toHaveLength(1)
    await database.sql`update items set n = n + 10 where id = 2`
    const next = { handle: now.handle, offset: now.offset, log: 'changes_only' }
    const live = await ask({ ...next, live: 'true' })
    expect(live.body[0].value).toMatchObject({ id: '2' })
  })

  test('SSE: one event a message, a batch ends with up-to-date', async () => {
    await serve({ sseMs: 400 })
    const { handle, offset } = await begin()
    const query = new URLSearchParams({
      table: 'items',
      handle,
      offset,
      live: 'true',
      live_sse: 'true',
    })
    const response = await fetch(`${url}?${query}`)
    expect(response.headers.get('content-type')).toBe('text/event-stream')
    await database.sql`update items set n = n + 1 where id = 1`
    const events = (await response.text()).split('\n\n').filter(Boolean)
    const messages = events.map((event) => JSON.parse(event.replace(/^data: /, '')))
    expect(messages.map(({ headers }) => headers.control ?? headers.operation)).toEqual([
      'up-to-date',
      'update',
      'up-to-date',
    ])
  })
})

describe('a subset', () => {
  const subset = {
    where: '"list" = $1',
    params: { 1: 'x' },
    order_by: '"n" DESC NULLS LAST',
    limit: 1,
  }
  const expected = (answer: Answer) => {
    expect(answer.status).toBe(200)
    expect(answer.body.data).toHaveLength(1)
    const mark = answer.body.metadata.snapshot_mark
    expect(answer.body.metadata).toEqual({
      xmin: expect.stringMatching(/^\d+$/),
      xmax: expect.stringMatching(/^\d+$/),
      xip_list: expect.any(Array),
      snapshot_mark: expect.any(Number),
      database_lsn: expect.stringMatching(/^\d+$/),
    })
    expect(answer.body.data[0].headers).toMatchObject({ operation: 'insert', snapshot_mark: mark })
    for (const name of ['electric-handle', 'electric-offset', 'electric-schema']) {
      expect(answer.headers.get(name)).toBeTruthy()
    }
    expect(answer.headers.get('electric-snapshot')).toBe('true')
  }

  test('by GET and by POST is the same: an object with rows and the snapshot they are from', async () => {
    await serve()
    const shape = { log: 'changes_only', offset: 'now' }
    const url = Object.entries(subset).map(([name, value]) => [
      `subset__${name}`,
      typeof value === 'object' ? JSON.stringify(value) : String(value),
    ])
    expected(await ask({ ...shape, ...Object.fromEntries(url) }))
    expected(await ask(shape, post(subset)))
  })

  test("is within the shape's own where", async () => {
    await serve()
    const shape = { log: 'changes_only', offset: 'now', where: 'list = $1', 'params[1]': 'y' }
    const answer = await ask(shape, post({ where: 'n > $1 or true', params: { 1: '0' } }))
    expect(answer.body.data.map(({ value }: any) => value.list)).toEqual(['y', 'y'])
  })

  test('of a stream that is under way leaves it where it is', async () => {
    await serve()
    const now = await ask({ offset: 'now', log: 'changes_only' })
    await database.sql`update items set n = n + 1 where id = 1`
    const next = { log: 'changes_only', handle: now.handle, offset: now.offset }
    const answer = await ask(next, post({ where: 'true = true' }))
    expect(answer.offset).toBe(now.offset)
  })
})

describe('409', () => {
  const refetch = [{ headers: { control: 'must-refetch' } }]

  test.each([
    ['a handle nobody gave', { handle: '1-1', offset: '0_0' }],
    ['a handle nobody gave, live', { handle: '1-1', offset: '0_0', live: 'true' }],
  ])('for %s, with another handle', async (_, query) => {
    await serve()
    const answer = await ask(query)
    expect([answer.status, answer.body]).toEqual([409, refetch])
    expect(answer.handle).toMatch(/^\d+-\d+$/)
    expect(answer.handle).not.toBe(query.handle)
  })

  test('for a handle of another shape, and for an offset from elsewhere', async () => {
    await serve()
    const { handle, offset } = await begin()
    expect((await ask({ handle, offset, where: "list = 'x'" })).status).toBe(409)
    expect((await ask({ handle, offset: '99999999999999999_0' })).status).toBe(409)
    const behind = await ask({ handle, offset: '0_0' })
    expect(behind.status).toBe(409)
    expect(behind.handle).not.toBe(handle)
  })

  test('for clients that wait, once somebody deletes the shape; its handle does not come back', async () => {
    await serve({ longPollMs: 20_000 })
    const { handle, offset } = await begin()
    const poll = ask({ handle, offset, live: 'true' })
    await ask({ handle, offset })
    const gone = await ask({ handle }, { method: 'DELETE' })
    expect(gone.status).toBe(202)
    expect((await poll).status).toBe(409)
    expect((await begin()).handle).not.toBe(handle)
    expect((await ask({ handle }, { method: 'DELETE' })).status).toBe(404)
  })
})

describe('400', () => {
  test.each([
    ['no table', { table: '', offset: '-1' }, 'table'],
    ['an unknown table', { table: 'nothing', offset: '-1' }, 'table'],
    ['a view', { table: 'items_view', offset: '-1' }, 'table'],
    ['a system table', { table: 'pg_catalog.pg_authid', offset: '-1' }, 'table'],
    ['no offset', {}, 'offset'],
    ['a malformed offset', { offset: '1' }, 'offset'],
    ['an offset without a handle', { offset: '1_0' }, 'handle'],
    ['live from the beginning', { offset: '-1', live: 'true' }, 'live'],
    ['an unknown column', { offset: '-1', columns: 'id,nothing' }, 'columns'],
    ['columns without the key', { offset: '-1', columns: 'n' }, 'columns'],
    ['an unknown replica', { offset: '-1', replica: 'half' }, 'replica'],
    ['a missing parameter', { offset: '-1', where: 'n = $1' }, 'params'],
    ['a gap in the parameters', { offset: '-1', where: 'n = $2', 'params[2]': '1' }, 'params'],
    ['a parameter of another type', { offset: '-1', where: 'n = $1', 'params[1]': 'a' }, 'where'],
    ['a clause that is no condition', { offset: '-1', where: 'n' }, 'where'],
    ['a limit without an order', { offset: '-1', subset__limit: '1' }, 'subset'],
    [
      'an unknown reference in a subset',
      { offset: '-1', subset__where: '"$synced" = true' },
      'subset',
    ],
  ])('for %s, naming the parameter', async (_, query, field) => {
    await serve()
    const answer = await ask(query as Record<string, string>)
    expect(answer).toMatchObject({ status: 400, body: { message: 'Invalid request' } })
    expect(Object.keys(answer.body.errors)).toEqual([field])
  })
})

describe('a clause cannot reach anything but the columns of its table', () => {
  test.each([
    "list = 'x') or exists (select 1 from secrets",
    'exists (select 1 from secrets)',
    'n in (select id from secrets)',
    '(table secrets) is not null',
    'true; drop table items',
    'true -- comment',
    'true /* comment */',
    'pg_sleep(10) is null',
    "pg_read_file('/etc/passwd') is not null",
    '"pg_sleep"(1) is null',
    '"id"(1) is null',
    "current_user = 'postgres'",
    "query_to_xml('select 1', true, true, '') is not null",
    'secrets.word is null',
    "list = E'\\' or true --'",
    "list = U&'x'",
    'list = $$x$$',
    "'1'::regclass is not null",
    "list = 'unterminated",
    '((n = 1)',
    'n = 1)',
    'n = 1 union select 1',
    "list similar to 'x'",
    'row(n) = row(1)',
    'lower(list) collate "C" = \'x\'',
    '\u0000',
    'n = 1 limit 1',
    'items is null',
    'ctid is null',
    'xmin is null',
  ])('%s', async (clause) => {
    await serve()
    expect((await begin({ where: clause })).status).toBe(400)
    expect((await ask({ offset: '-1' }, post({ where: clause }))).status).toBe(400)
    const order = { order_by: clause, limit: 1 }
    expect((await ask({ offset: '-1' }, post(order))).status).toBe(400)
    expect(await database.sql`select count(*)::int as n from items`).toEqual([{ n: 4 }])
  })

  test.each([
    ["upper(list) = 'X' and not (n is null)", 2],
    ["list like 'x%' and coalesce(n, 0) between 0 and 1000", 2],
    ["list ilike 'X' or n in (3, -4)", 3],
    ["concat(list, '-', id) = 'y-3'", 1],
    ["length(list) > 0 and id = any('{1,2}')", 2],
    ["id = any(array[1, 2]::int[]) and list <> 'it''s; -- no comment'", 2],
    ['"id"+1 is distinct from 2', 3],
    ['true = true', 4],
    ['list is not distinct from null', 0],
  ])('but %s is understood', async (clause, count) => {
    await serve()
    const answer = await begin({ where: clause })
    expect([answer.status, answer.body.length - 1]).toEqual([200, count])
  })
})

describe('around the shapes', () => {
  test('with a secret every request for a shape needs it; health does not', async () => {
    const server = await serve({ secret: 'open sesame' })
    for (const secret of ['', 'wrong']) expect((await begin({ secret })).status).toBe(401)
    expect((await ask({ secret: '' }, { method: 'DELETE' })).status).toBe(401)
    expect((await ask({ offset: '-1' }, post({}))).status).toBe(401)
    expect((await begin({ secret: 'open sesame' })).status).toBe(200)
    const health = await fetch(`${server.url}/v1/health`)
    expect([health.status, await health.json()]).toEqual([200, { status: 'active' }])
  })

  test('a browser may ask first; other paths, methods and bodies are refused', async () => {
    const server = await serve()
    const asked = { 'access-control-request-headers': 'x-custom', origin: 'http://app' }
    const options = await fetch(url, { method: 'OPTIONS', headers: asked })
    expect(options.status).toBe(204)
    expect(options.headers.get('access-control-allow-headers')).toBe('x-custom')
    expect(options.headers.get('access-control-allow-methods')).toContain('DELETE')
    expect((await fetch(`${server.url}/v1/other`)).status).toBe(404)
    expect((await ask({}, { method: 'PUT' })).status).toBe(405)
    expect((await ask({ offset: '-1' }, { method: 'POST', body: '{' })).status).toBe(400)
    expect((await ask({ offset: '-1' }, { method: 'POST', body: ' '.repeat(2e6) })).status).toBe(
      413,
    )
  })

  test('says in its log that it is for development', async () => {
    onLog.length = 0
    await serve()
    expect(onLog.join()).toContain('for development and tests only')
  })

  test('two shapes over one table that differ only in form agree, and equal ones are one', async () => {
    await serve()
    const [one, same, other] = [await begin(), await begin(), await begin({ replica: 'full' })]
    expect(same.handle).toBe(one.handle)
    expect(other.handle).not.toBe(one.handle)
    expect(other.body.slice(0, -1)).toEqual(one.body.slice(0, -1))
  })

  test('an unknown option, a port in use and an unreachable database are named', async () => {
    const server = await serve()
    const start = (options: object) => startSyncServer({ databaseUrl: database.url, ...options })
    await expect(start({ longPolMs: 1 })).rejects.toThrow(/longPollMs/)
    await expect(start({ longPollMs: 0 })).rejects.toMatchObject({ field: 'longPollMs' })
    await expect(start({ port: server.port })).rejects.toThrow(/in use/)
    const nowhere = { databaseUrl: 'postgres://x@127.0.0.1:1/x' }
    await expect(start(nowhere)).rejects.toMatchObject({ code: 'DEV_STACK' })
  })
})
