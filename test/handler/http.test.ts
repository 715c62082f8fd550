/** The handler as an HTTP citizen: methods, preflights, limits, options, and services that are away. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { paths } from '../../src/contract/requests.js'
import { createHandler } from '../../src/handler/create-handler.js'
import type { HandlerOptions } from '../../src/handler/options.js'
import { routes } from '../../src/handler/routes.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { createConversations, type Conversations } from './conversations.js'
import { createWorld, fresh, problemOf, type World } from './handler-world.js'
import { answerNothing } from './upstream.js'

let database: TestDatabase
let world: World
let rows: Conversations

beforeAll(async () => {
  database = await createTestDatabase()
  world = await createWorld({ db: database.db, streams: { url: inject('streamsUrl') } })
  rows = await createConversations(database)
})

describe('methods', () => {
  const patterns = [...new Set(routes.map(({ pattern }) => pattern))]

  test.each(patterns)('%s says which it answers, and refuses the others', async (pattern) => {
    const path = pattern.replaceAll(/:\w+/g, 'alice-1')
    const methods = routes.filter((route) => route.pattern === pattern).map(({ method }) => method)
    const allow = [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].join(', ')
    const asked = world.asked.length
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'QUERY', 'OPTIONS']) {
      if (methods.some((one) => one === method)) continue
      const answer = await world.call(method, path)
      expect([method, answer.status]).toEqual([method, method === 'OPTIONS' ? 204 : 405])
      expect(answer.headers.get('allow')).toBe(allow)
    }
    expect(world.asked.length).toBe(asked)
  })

  test('HEAD answers like GET, without a body', async () => {
    const { sessionId, generationId } = await rows.settled('alice')
    const path = paths.generation(sessionId, generationId)
    const [get, head] = [await world.call('GET', path), await world.call('HEAD', path)]
    expect(head).toMatchObject({ status: 200, text: '' })
    expect(head.headers.get('content-type')).toBe(get.headers.get('content-type'))
    expect((await world.call('HEAD', path, { as: 'bob' })).status).toBe(404)
  })

  test('an unknown address is a problem, too', async () => {
    const answer = await world.call('GET', '/nothing/here')
    expect(problemOf(answer)).toMatchObject({ status: 404, code: 'NOT_FOUND' })
  })
})

describe('pages of other origins', () => {
  const origin = 'https://app.example'
  const preflight = {
    as: '',
    headers: {
      origin,
      'access-control-request-method': 'PATCH',
      'access-control-request-headers': 'content-type,authorization',
    },
  }

  test('get nothing unless the host names them', async () => {
    const answer = await world.call('OPTIONS', paths.sessions(), preflight)
    expect(answer.headers.get('access-control-allow-origin')).toBeNull()
  })

  test('that are named may write, with cookies, and read the protocol’s headers', async () => {
    const open = await createWorld({
      db: database.db,
      cors: { origins: [origin], credentials: true },
    })
    const before = await open.call('OPTIONS', paths.sessions(), preflight)
    expect(before.status).toBe(204)
    expect(Object.fromEntries(before.headers)).toMatchObject({
      'access-control-allow-origin': origin,
      'access-control-allow-credentials': 'true',
      'access-control-allow-methods': 'GET,HEAD,POST,PATCH,DELETE',
      'access-control-allow-headers': 'content-type,authorization',
      'access-control-max-age': '600',
    })
    expect(before.headers.get('vary')).toMatch(/Origin/i)
    // Before anybody is asked: a preflight carries no credentials.
    expect(open.asked).toEqual([])
    const answer = await open.call('GET', paths.sessions(), { headers: { origin } })
    const exposed = answer.headers.get('access-control-expose-headers')!.split(',')
    expect(exposed).toEqual(
      expect.arrayContaining(['electric-handle', 'electric-offset', 'electric-schema']),
    )
    expect(exposed).toEqual(expect.arrayContaining(['electric-cursor', 'stream-next-offset']))
    const refused = await open.call('GET', '/nothing', { headers: { origin } })
    expect(refused.headers.get('access-control-allow-origin')).toBe(origin)
    for (const other of ['https://evil.example', 'null', `${origin}.evil.example`]) {
      const foreign = await open.call('GET', paths.sessions(), { headers: { origin: other } })
      expect(foreign.headers.get('access-control-allow-origin')).toBeNull()
    }
  })
})

describe('rate limits', () => {
  test('are asked with who it is, after authorize, and refuse with when to try again', async () => {
    const seen: unknown[] = []
    const limited = await createWorld({
      db: database.db,
      rateLimit: (_request, action, grant) => {
        seen.push([action.verb, grant])
        return action.verb === 'send' ? { retryAfterMs: 2_500 } : undefined
      },
    })
    const sessionId = await rows.session('alice')
    const answer = await limited.call('POST', paths.messages(sessionId), {
      body: { id: fresh('m'), content: 'Hi' },
    })
    expect(problemOf(answer)).toMatchObject({ status: 429, code: 'RATE_LIMITED' })
    expect(answer.headers.get('retry-after')).toBe('3')
    expect((await limited.call('GET', paths.sessions())).status).toBe(200)
    await limited.call('GET', paths.sessions(), { as: '' })
    const alice = { actor: 'alice', owner: 'alice' }
    expect(seen).toEqual([
      ['send', alice],
      ['list-sessions', alice],
    ])
    const found = await database.sql`select 1 from ai_db.messages where session_id = ${sessionId}`
    expect(found).toHaveLength(0)
  })
})

describe('denials', () => {
  test('tell what the host says, and with not-found nothing', async () => {
    const deny = { deny: 'forbidden', detail: 'Only on weekdays.' } as const
    const shut = await createWorld({ db: database.db, authorize: () => deny })
    const answer = await shut.call('GET', paths.sessions())
    expect(problemOf(answer)).toMatchObject({ status: 403, code: 'FORBIDDEN', detail: deny.detail })
    const hidden = await createWorld({
      db: database.db,
      authorize: () => ({ deny: 'not-found', detail: 'Bob has it.' }),
    })
    const missing = await hidden.call('GET', paths.generation('bob-1', 'x'))
    expect(problemOf(missing)).toMatchObject({ status: 404, code: 'NOT_FOUND' })
    expect(missing.text).not.toContain('Bob has it')
    expect(shut.errors).toEqual([])
  })
})

describe('a service that is away', () => {
  async function serve(port = 0): Promise<{ server: Server; port: number }> {
    const server = createServer((_request, response) => answerNothing(response))
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
    return { server, port: (server.address() as AddressInfo).port }
  }

  async function stop(server: Server): Promise<void> {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }

  test('is a 502 that says when to try again, and fine when it is back', async () => {
    const first = await serve()
    const secret = 'do-not-tell'
    const url = `http://127.0.0.1:${first.port}`
    const options = { electric: { url, secret }, streams: { url } }
    const behind = await createWorld({ db: database.db, ...options })
    const { sessionId, generationId } = await rows.running('alice')
    const reads = [
      `${paths.shape(sessionId, 'messages')}?offset=-1`,
      `${paths.stream(sessionId, generationId)}?offset=-1`,
    ]
    const statuses = async () =>
      Promise.all(reads.map(async (path) => (await behind.call('GET', path)).status))
    expect(await statuses()).toEqual([200, 200])
    await stop(first.server)
    for (const path of reads) {
      const answer = await behind.call('GET', path)
      expect(problemOf(answer)).toMatchObject({ status: 502, code: 'UPSTREAM_FAILED' })
      expect(answer.headers.get('retry-after')).toBe('1')
      expect(answer.text).not.toContain(String(first.port))
    }
    expect(behind.errors).toHaveLength(2)
    const told = behind.errors.map((error) => String((error as Error).stack)).join()
    expect(told).toContain('ECONNREFUSED')
    expect(told).not.toContain(secret)
    const second = await serve(first.port)
    onTestFinished(() => stop(second.server))
    expect(await statuses()).toEqual([200, 200])
  })

  test('the database away is a 503 without its address', async () => {
    const gone = database.connect(1)
    await gone.$client.end()
    const behind = await createWorld({ db: gone })
    const answer = await behind.call('GET', paths.sessions())
    expect(problemOf(answer)).toMatchObject({ status: 503, code: 'DATABASE_UNREACHABLE' })
    expect(answer.headers.get('retry-after')).toBe('1')
    expect(answer.text).not.toContain(new URL(database.url).port)
  })

  test('no stream server at all is told as such', async () => {
    const without = await createWorld({ db: database.db })
    const { sessionId, generationId } = await rows.running('alice')
    const answer = await without.call('GET', paths.stream(sessionId, generationId))
    expect(problemOf(answer)).toMatchObject({ status: 404, code: 'STREAM_FAILED' })
  })
})

describe('live text through the handler', () => {
  test('is the generation’s stream, from any offset, as the stream server answers it', async () => {
    const { sessionId, generationId } = await rows.running('alice')
    const stream = `${inject('streamsUrl')}/v1/stream/ai_db/generations/${generationId}`
    const json = { 'content-type': 'application/json' }
    const item = (delta: string) => JSON.stringify([{ type: 'text', step: 0, delta }])
    const path = paths.stream(sessionId, generationId)
    expect((await world.call('GET', `${path}?offset=-1`)).status).toBe(404)
    await fetch(stream, { method: 'PUT', headers: json, body: item('Hel') })
    const first = await world.call('GET', `${path}?offset=-1`)
    expect(first.body).toEqual([{ type: 'text', step: 0, delta: 'Hel' }])
    expect(first.headers.get('cache-control')).toMatch(/^private|no-store/)
    const offset = first.headers.get('stream-next-offset')!
    const live = world.call('GET', `${path}?offset=${offset}&live=long-poll`)
    await fetch(stream, { method: 'POST', headers: json, body: item('lo') })
    expect((await live).body).toEqual([{ type: 'text', step: 0, delta: 'lo' }])
    const bad = await world.call('GET', `${path}?offset=../../etc`)
    expect(problemOf(bad)).toMatchObject({ status: 400, code: 'INVALID_INPUT', field: 'offset' })
    const stop = new AbortController()
    const events = await fetch(`${world.url}${path}?offset=-1&live=sse`, {
      headers: { authorization: 'Bearer alice' },
      signal: stop.signal,
    })
    expect(events.headers.get('content-type')).toContain('text/event-stream')
    const reader = events.body!.pipeThrough(new TextDecoderStream()).getReader()
    let seen = ''
    while (!seen.includes('"lo"')) seen += (await reader.read()).value
    expect(seen).toContain('"Hel"')
    stop.abort()
  })
})

describe('options', () => {
  const good = (): HandlerOptions => ({
    db: database.db,
    electric: { url: 'http://localhost:3000' },
    authorize: () => ({ actor: 'a' }),
  })

  test.each<[string, Record<string, unknown>]>([
    ['authorize', { authorize: undefined }],
    ['authorize', { authorize: true }],
    ['db', { db: {} }],
    ['electric', { electric: undefined }],
    ['electric.url', { electric: {} }],
    ['electric.url', { electric: { url: '/v1/shape' } }],
    ['electric.url', { electric: { url: 'ftp://localhost' } }],
    ['electric.url', { electric: { url: 'http://user:password@localhost' } }],
    ['electric.secret', { electric: { url: 'http://localhost', secret: '' } }],
    ['secrets', { electric: { url: 'http://localhost', secrets: 'x' } }],
    ['streams.url', { streams: { url: 'localhost:4437' } }],
    ['basePath', { basePath: 'api/ai' }],
    ['basePath', { basePath: '/api?x' }],
    ['maxBodyBytes', { maxBodyBytes: 0 }],
    ['schema', { schema: '' }],
    ['defaultAgent', { defaultAgent: 7 }],
    ['onError', { onError: 'log' }],
    ['rateLimit', { rateLimit: 10 }],
    ['cors.origins', { cors: { origins: '*', credentials: true } }],
    ['cors.origins', { cors: { origins: ['app.example'] } }],
    ['cors.origins', { cors: { origins: ['https://app.example/'] } }],
    ['cors.origins', { cors: {} }],
    ['authorise', { authorise: () => ({ actor: 'a' }) }],
  ])('%s: %j is refused at once, by name', (field, wrong) => {
    const options = { ...good(), ...wrong } as unknown as HandlerOptions
    let thrown: unknown
    try {
      createHandler(options)
    } catch (error) {
      thrown = error
    }
    expect(thrown).toMatchObject({ name: 'AiDbError', code: 'INVALID_OPTION', field })
    expect((thrown as Error).message).not.toContain('password@')
  })

  test('a listener for errors that throws costs nobody his answer', async () => {
    const handler = createHandler({
      ...good(),
      authorize: () => undefined as never,
      onError: () => {
        throw new Error('the log is full')
      },
    })
    const response = await handler(new Request('http://localhost/sessions'))
    expect(response.status).toBe(500)
  })
})
