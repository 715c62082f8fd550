/** What goes to Electric and to the stream server, and what of their answers comes back. */
import { ELECTRIC_PROTOCOL_QUERY_PARAMS } from '@electric-sql/client'
import { DURABLE_STREAM_PROTOCOL_QUERY_PARAMS } from '@durable-streams/client'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { records, shapeNames } from '../../src/contract/records.js'
import { paths } from '../../src/contract/requests.js'
import { protocolParams } from '../../src/electric/proxy.js'
import { createTestDatabase } from '../support/database.js'
import { createConversations, type Conversations } from './conversations.js'
import { createWorld, problemOf, type World } from './handler-world.js'
import { answerNothing, createUpstream, type Asked, type Upstream } from './upstream.js'

const SECRET = 'ssh-do-not-tell'

let electric: Upstream
let streams: Upstream
let world: World
let rows: Conversations

beforeAll(async () => {
  const database = await createTestDatabase()
  electric = await createUpstream()
  streams = await createUpstream()
  world = await createWorld({
    db: database.db,
    electric: { url: `${electric.url}/`, secret: SECRET, sourceId: 'source-1' },
    streams: { url: streams.url, headers: { authorization: 'Bearer of-the-handler' } },
  })
  rows = await createConversations(database)
})

afterEach(() => {
  electric.answer = answerNothing
  streams.answer = answerNothing
})

const lastAsked = ({ log }: Upstream) => log.of('asked').at(-1) as Asked
const shape = paths.shape('alice-1', 'tool-calls')

test('the list of protocol parameters is that of Electric’s client', () => {
  expect([...protocolParams].sort()).toEqual([...ELECTRIC_PROTOCOL_QUERY_PARAMS].sort())
})

describe('a shape request', () => {
  test('has table, columns, filter and secret of ours, whatever the client sent', async () => {
    const forged = new URLSearchParams({
      ...{ offset: '-1', table: 'pg_authid', where: 'true', columns: 'rolpassword', replica: 'x' },
      ...{ params: '{"1":"bob-1"}', 'params[1]': 'bob-1', 'params[2]': 'x', secret: 'guess' },
      ...{ source_id: 'another', api_secret: 'guess', database_id: 'x', token: 'x', foo: 'bar' },
    })
    await world.call('GET', `${shape}?${forged.toString()}`)
    const { url, method } = lastAsked(electric)
    expect(method).toBe('GET')
    expect(url.pathname).toBe('/v1/shape')
    expect(Object.fromEntries(url.searchParams)).toEqual({
      offset: '-1',
      table: 'ai_db.tool_calls',
      columns: expect.stringMatching(/^"id","generation_id","session_id",/) as string,
      where: '"session_id" = $1',
      'params[1]': 'alice-1',
      replica: 'full',
      secret: SECRET,
      source_id: 'source-1',
    })
    expect([...url.searchParams.keys()]).toHaveLength(8)
  })

  test.each(shapeNames)(
    '%s has the columns of its record, and those of one session',
    async (name) => {
      await world.call('GET', `${paths.shape('alice-1', name)}?offset=-1`)
      const params = lastAsked(electric).url.searchParams
      const camel = (column: string) =>
        column.replaceAll('"', '').replace(/_(.)/g, (_, char: string) => char.toUpperCase())
      expect(params.get('columns')!.split(',').map(camel)).toEqual(Object.keys(records[name].shape))
      expect(params.get('where')).toBe(name === 'sessions' ? '"id" = $1' : '"session_id" = $1')
      expect(params.get('params[1]')).toBe('alice-1')
    },
  )

  test('for the list of sessions is bound to the owner', async () => {
    await world.call('GET', `${paths.sessionsShape()}?offset=-1&where=true`)
    const params = lastAsked(electric).url.searchParams
    expect(params.get('where')).toBe('"owner_id" = $1')
    expect(params.get('params[1]')).toBe('alice')
  })

  test('passes every protocol parameter, and none twice', async () => {
    const sent = new URLSearchParams(protocolParams.map((name) => [name, 'true']))
    sent.append('offset', '0_0')
    await world.call('GET', `${shape}?${sent.toString()}`)
    const passed = [...lastAsked(electric).url.searchParams.keys()]
    const structured = ['subset__where_expr', 'subset__order_by_expr']
    const expected = protocolParams.filter((name) => !structured.includes(name))
    expect(passed.filter((name) => protocolParams.some((one) => one === name)).sort()).toEqual(
      [...expected].sort(),
    )
  })

  test('carries no credentials of the client', async () => {
    const headers = { cookie: 'session=1', 'x-forwarded-for': '1.2.3.4', 'if-none-match': '"a"' }
    await world.call('GET', `${shape}?offset=-1`, { headers })
    const { headers: passed } = lastAsked(electric)
    expect(passed).toMatchObject({ 'if-none-match': '"a"', 'accept-encoding': 'identity' })
    for (const name of ['cookie', 'authorization', 'x-forwarded-for']) {
      expect(passed[name]).toBeUndefined()
    }
  })

  test('posts a subset with the known keys only', async () => {
    const subset = { where: '"name" = $1', params: { '1': 'x' }, limit: 5, order_by: '"step" DESC' }
    const body = { ...subset, where_expr: { type: 'ref', column: 'step' } }
    await world.call('POST', `${shape}?offset=now&log=changes_only`, { body })
    const asked = lastAsked(electric)
    expect(asked.method).toBe('POST')
    expect(asked.url.searchParams.get('params[1]')).toBe('alice-1')
    expect(JSON.parse(asked.body)).toEqual(subset)
  })
})

describe('a subset’s filter that reaches out of its shape is refused before Electric sees it', () => {
  const hostile = [
    'true) or (true',
    'true)) or ((true',
    '"id" = $1 -- ',
    '"id" = $1 /* */',
    'true; drop table ai_db.messages',
    '"id" in (select id from ai_db.messages)',
    'exists (select 1)',
    'pg_sleep(10) is null',
    'length(pg_read_file($1)) > 1',
    '"provider_response_id" = $1',
    'concurrency_key is null',
    'current_user = $1',
    "'open",
    '"open',
    "E'\\' or true --' = $1",
    '$$x$$ = $1',
    '"id" = any (array[(select 1)])',
    'tool_calls."id" = $1',
    '"id"::text = $1',
    'true\u0000',
    '(true',
    'case when true then true end',
  ]
  test.each(hostile)('%s', async (where) => {
    const before = electric.log.all.length
    const inUrl = new URLSearchParams({ offset: '-1', subset__where: where })
    const inOrder = new URLSearchParams({ offset: '-1', subset__order_by: where })
    const answers = [
      await world.call('GET', `${shape}?${inUrl.toString()}`),
      await world.call('GET', `${shape}?${inOrder.toString()}`),
      await world.call('POST', `${shape}?offset=now`, { body: { where } }),
      await world.call('POST', `${shape}?offset=now`, { body: { order_by: where } }),
    ]
    const fields = ['subset__where', 'subset__order_by', 'where', 'order_by']
    expect(answers.map((answer) => problemOf(answer))).toMatchObject(
      fields.map((field) => ({ status: 400, code: 'INVALID_INPUT', field })),
    )
    expect(electric.log.all.length).toBe(before)
  })

  test.each([
    'true = true',
    '"name" = $1 AND ("step" > $2 OR NOT ("step" <= $3))',
    '"status" = ANY($1) AND "error" IS NOT NULL',
    `LOWER("name") LIKE $1 AND COALESCE("error",$2) ILIKE 'it''s -- fine; (here'`,
    '"step" + 1 > -2.5 and CONCAT("name",$1) <> $2',
    '"name" DESC NULLS LAST,"step"',
  ])('what a query compiles to passes: %s', async (where) => {
    const answer = await world.call('POST', `${shape}?offset=now`, { body: { where } })
    expect(answer.status).toBe(200)
  })
})

describe('an answer of Electric', () => {
  test('passes by a list of headers, uncompressed, and is nobody else’s', async () => {
    electric.answer = (response) => {
      response.writeHead(200, {
        'content-type': 'application/json',
        'electric-handle': '1-2',
        'electric-offset': '0_inf',
        'electric-schema': '{}',
        'electric-cursor': '7',
        'electric-up-to-date': '',
        'cache-control': 'public, max-age=604800, s-maxage=3600, stale-while-revalidate=300',
        etag: '"1-2:0_inf"',
        location: `/v1/shape?secret=${SECRET}`,
        server: 'electric',
        'set-cookie': 'a=b',
        'access-control-allow-origin': '*',
        'x-shape': `${electric.url}/v1/shape?secret=${SECRET}`,
      })
      response.end('[1]')
    }
    const answer = await world.call('GET', `${shape}?offset=-1`)
    const headers = Object.fromEntries(answer.headers)
    for (const name of ['date', 'connection', 'keep-alive', 'transfer-encoding', 'content-length'])
      delete headers[name]
    expect(headers).toEqual({
      'content-type': 'application/json',
      'electric-handle': '1-2',
      'electric-offset': '0_inf',
      'electric-schema': '{}',
      'electric-cursor': '7',
      'electric-up-to-date': '',
      'cache-control': 'private, max-age=604800, stale-while-revalidate=300',
      vary: 'authorization, cookie',
      etag: '"1-2:0_inf"',
    })
  })

  test.each([
    [409, 409, undefined],
    [304, 304, undefined],
    [400, 400, 'INVALID_INPUT'],
    [401, 502, 'UPSTREAM_FAILED'],
    [404, 502, 'UPSTREAM_FAILED'],
    [429, 502, 'UPSTREAM_FAILED'],
    [503, 502, 'UPSTREAM_FAILED'],
    [302, 502, 'UPSTREAM_FAILED'],
  ])('of %i is answered with %i', async (status, answered, code) => {
    electric.answer = (response) => {
      response.writeHead(status, { 'electric-handle': 'new', location: 'http://elsewhere.example' })
      response.end(status === 304 ? undefined : `table ai_db.messages, secret=${SECRET}`)
    }
    const answer = await world.call('GET', `${shape}?offset=-1`)
    expect(answer.status).toBe(answered)
    if (answered === 409) expect(answer.headers.get('electric-handle')).toBe('new')
    if (code === undefined) return
    expect(problemOf(answer)).toMatchObject({ code })
    expect(answer.text).not.toMatch(/ai_db|secret|elsewhere/)
    expect(answer.headers.get('retry-after')).toBe(answered === 502 ? '1' : null)
  })

  test('that breaks off breaks off here, too: half a list is not taken for a whole one', async () => {
    electric.answer = (response) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.write('[{"key":', () => response.destroy())
    }
    await expect(world.call('GET', `${shape}?offset=-1`)).rejects.toThrow()
  })

  test('comes as it is written, not when it is whole', async () => {
    let finish = () => {}
    electric.answer = (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('data: first\n\n')
      finish = () => response.end('data: last\n\n')
    }
    const url = `${world.url}${shape}?offset=0_0&live=true&live_sse=true`
    const response = await fetch(url, { headers: { authorization: 'Bearer alice' } })
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
    expect((await reader.read()).value).toBe('data: first\n\n')
    finish()
    expect((await reader.read()).value).toBe('data: last\n\n')
    expect((await reader.read()).done).toBe(true)
  })
})

describe('a client that goes away ends the request behind', () => {
  const waits: [string, () => Upstream, () => Promise<string>, boolean][] = [
    ['a long poll', () => electric, async () => `${shape}?offset=0_0&live=true`, false],
    ['events in the middle', () => electric, async () => `${shape}?offset=0_0&live=true`, true],
    ['a stream', () => streams, async () => `${await streamPath()}?offset=-1&live=sse`, true],
    ['a stream’s poll', () => streams, async () => `${await streamPath()}?offset=0_0`, false],
  ]
  test.each(waits)('%s', async (_what, upstreamOf, pathOf, begun) => {
    const upstream = upstreamOf()
    upstream.answer = (response) => {
      if (begun) response.writeHead(200, { 'content-type': 'text/event-stream' }).write(': hi\n\n')
    }
    const path = await pathOf()
    const asked = upstream.log.of('asked').length
    const gone = upstream.log.of('gone').length
    const leave = new AbortController()
    const told = world.errors.length
    const waiting = fetch(world.url + path, {
      headers: { authorization: 'Bearer alice' },
      signal: leave.signal,
    })
    await upstream.log.untilType('asked', asked + 1)
    if (begun) await (await waiting).body!.getReader().read()
    leave.abort()
    await waiting.catch(() => undefined)
    await upstream.log.untilType('gone', gone + 1)
    expect(world.errors.length).toBe(told)
  })

  test('HEAD ends it at once, and answers what GET would without a body', async () => {
    electric.answer = (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'electric-handle': 'h' })
      response.write(': hi\n\n')
    }
    const gone = electric.log.of('gone').length
    const answer = await world.call('HEAD', `${shape}?offset=0_0&live=true`)
    expect(answer).toMatchObject({ status: 200, text: '' })
    expect(answer.headers.get('electric-handle')).toBe('h')
    await electric.log.untilType('gone', gone + 1)
  })
})

async function streamPath(): Promise<string> {
  const { sessionId, generationId } = await rows.running('alice')
  return paths.stream(sessionId, generationId)
}

describe('a stream request', () => {
  test('passes the protocol’s parameters and our headers, nothing else', async () => {
    const { sessionId, generationId } = await rows.running('alice')
    const query = 'offset=-1&live=sse&cursor=7&secret=x&foo=bar&Producer-Id=1'
    await world.call('GET', `${paths.stream(sessionId, generationId)}?${query}`)
    const { url, headers, method } = lastAsked(streams)
    expect(method).toBe('GET')
    expect(url.pathname).toBe(`/v1/stream/ai_db/generations/${generationId}`)
    expect([...url.searchParams.keys()].sort()).toEqual(
      [...DURABLE_STREAM_PROTOCOL_QUERY_PARAMS].sort(),
    )
    expect(headers['authorization']).toBe('Bearer of-the-handler')
    expect(headers['cookie']).toBeUndefined()
  })

  test.each([
    [404, 404, 'STREAM_FAILED'],
    [410, 404, 'STREAM_FAILED'],
    [400, 400, 'INVALID_INPUT'],
    [500, 502, 'UPSTREAM_FAILED'],
  ])('answered with %i is answered with %i', async (status, answered, code) => {
    streams.answer = (response) => response.writeHead(status).end('/v1/stream/ai_db is secret')
    const answer = await world.call('GET', `${await streamPath()}?offset=-1`)
    expect(problemOf(answer)).toMatchObject({ status: answered, code })
    expect(answer.text).not.toContain('/v1/stream')
  })

  test('of a live reader that comes before the worker’s first words waits for them', async () => {
    let asked = 0
    streams.answer = (response) => {
      asked += 1
      response.writeHead(asked < 3 ? 404 : 200).end('[]')
    }
    const answer = await world.call('GET', `${await streamPath()}?offset=-1&live=sse`)
    expect(answer).toMatchObject({ status: 200, text: '[]' })
    expect(asked).toBe(3)
  })

  test.each(['PUT', 'POST', 'DELETE', 'PATCH'])('cannot write: %s is refused', async (method) => {
    const path = await streamPath()
    const before = streams.log.all.length
    const answer = await world.call(method, path, { body: [{ type: 'text' }] })
    expect(answer.status).toBe(405)
    expect(answer.headers.get('allow')).toBe('GET, HEAD, OPTIONS')
    expect(streams.log.all.length).toBe(before)
  })
})
