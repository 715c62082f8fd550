/** The handler in each kind of framework: what a mount does to the URL must not change who reads what. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { Hono } from 'hono'
import { beforeAll, describe, expect, test } from 'vitest'
import { paths } from '../../src/contract/requests.js'
import { createHandler } from '../../src/handler/create-handler.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import {
  call,
  EXAMPLE_ELECTRIC,
  fresh,
  listen,
  ownSessionsOnly,
  sessionOf,
} from './handler-world.js'

type Listener = (request: IncomingMessage, response: ServerResponse) => unknown

let database: TestDatabase

beforeAll(async () => {
  database = await createTestDatabase()
})

const handlerAt = (basePath?: string) =>
  createHandler({
    db: database.db,
    electric: { url: EXAMPLE_ELECTRIC },
    authorize: ownSessionsOnly,
    ...(basePath !== undefined && { basePath }),
  })

/** Frameworks' listeners answer with promises; the server has no use for them. */
const ended =
  (listener: Listener) =>
  (request: IncomingMessage, response: ServerResponse): void => {
    void listener(request, response)
  }

/** As Express mounts: the prefix is taken off `request.url`, whoever listens sees the rest. */
function stripped(prefix: string, listener: Listener): Listener {
  return (request, response) => {
    if (!request.url?.startsWith(prefix)) return void response.writeHead(404).end()
    request.url = request.url.slice(prefix.length) || '/'
    listener(request, response)
  }
}

const PREFIX = '/api/ai'

const mounts: Record<string, () => Listener> = {
  'node http, at the root': () => getRequestListener(handlerAt()),
  'node http, under a path': () => getRequestListener(handlerAt(PREFIX)),
  'Express and Connect, which strip the path': () =>
    stripped(PREFIX, getRequestListener(handlerAt())),
  'Hono, all()': () => {
    const app = new Hono()
    const handler = handlerAt(PREFIX)
    app.all(`${PREFIX}/*`, ({ req }) => handler(req.raw))
    return getRequestListener(app.fetch)
  },
  'Hono, mount()': () => {
    const app = new Hono()
    app.mount(PREFIX, handlerAt())
    return getRequestListener(app.fetch)
  },
  'Next and TanStack Start, one function a method': () => {
    const handler = handlerAt(`${PREFIX}/`)
    const methods: Record<string, typeof handler> = {}
    for (const method of ['GET', 'HEAD', 'POST', 'PATCH', 'DELETE', 'OPTIONS'])
      methods[method] = handler
    return getRequestListener((request) => methods[request.method]!(request))
  },
}

describe.each(Object.entries(mounts))('%s', (name, mount) => {
  const prefix = name.endsWith('root') ? '' : PREFIX
  let url: string

  beforeAll(async () => {
    url = await listen(createServer(ended(mount())))
  })

  test('a message goes in and its session’s ids survive the way, whatever they are made of', async () => {
    for (const odd of ['plain', 'a/b?c#d', 'ü %41 +&=', '..%2f..']) {
      const sessionId = `${await sessionOf(database.db, 'alice')} ${odd}`
      const created = await call(url, 'POST', prefix + paths.sessions(), {
        body: { id: sessionId },
      })
      expect(created.body).toMatchObject({ id: sessionId })
      const body = { id: fresh('message'), content: 'Hello' }
      const answer = await call(url, 'POST', prefix + paths.messages(sessionId), { body })
      expect(answer.status).toBe(200)
      const found = await database.sql`select session_id from ai_db.messages where id = ${body.id}`
      expect(found[0]!['session_id']).toBe(sessionId)
    }
  })

  test('another’s session, an unknown path and a wrong method are problems', async () => {
    const bobs = await sessionOf(database.db, 'bob')
    const body = { id: fresh('message'), content: 'Hello' }
    const statuses = [
      await call(url, 'POST', prefix + paths.messages(bobs), { body }),
      await call(url, 'GET', `${prefix}/nothing`),
      await call(url, 'DELETE', prefix + paths.sessions()),
      await call(url, 'POST', `${prefix}/sessions/alice-1/../${bobs}/messages`, { body }),
    ].map(({ status, headers }) => [status, headers.get('content-type')])
    const problem = 'application/problem+json'
    expect(statuses).toEqual([404, 404, 405, 404].map((status) => [status, problem]))
  })
})

describe('a base path', () => {
  const answer = (handler: (request: Request) => Promise<Response>, path: string) =>
    handler(new Request(`http://localhost${path}`, { headers: { authorization: 'Bearer alice' } }))

  test('is needed where it is set, as a whole segment, once', async () => {
    const handler = handlerAt(PREFIX)
    expect((await answer(handler, '/api/ai/sessions')).status).toBe(200)
    for (const path of [
      '/sessions',
      '/api/aisessions',
      '/api/ai',
      '/api/ai/api/ai/sessions',
      '/API/AI/sessions',
    ])
      expect([path, (await answer(handler, path)).status]).toEqual([path, 404])
  })
})
