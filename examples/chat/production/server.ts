/**
 * The app of the production stack: the library's handler under /api, the built page, and /health. Any number of
 * them may run behind a proxy that speaks TLS; each keeps nothing.
 *
 * A real app brings its own login: `demoAuthorize` says what it has to answer.
 */
import { fileURLToPath } from 'node:url'
import { createAdaptorServer } from '@hono/node-server'
import { drizzle } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { createHandler } from '../../../src/server.js'
import { actorOrNew } from '../actor-cookie.js'
import { demoAuthorize } from '../authorize.js'
import { loadPageFiles } from '../page-files.js'
import { readEnvironment } from './environment.js'

/** Where the image's build puts the page. */
const PAGE = fileURLToPath(new URL('page', import.meta.url))

const { databaseUrl, electricUrl, electricSecret, streamsUrl, port } = readEnvironment()
const client = postgres(databaseUrl, { max: 10 })
const db = drizzle({ client })
const files = await loadPageFiles(process.env.PAGE_DIRECTORY || PAGE)
const api = createHandler({
  db,
  electric: { url: electricUrl, secret: electricSecret },
  streams: { url: streamsUrl },
  authorize: demoAuthorize(db, 'ai_db'),
  basePath: '/api',
})

const server = createAdaptorServer({
  fetch: async (request) => {
    const { pathname } = new URL(request.url)
    if (pathname.startsWith('/api/')) return api(request)
    if (pathname === '/health') return await health()
    if (request.method !== 'GET') return new Response('Not found', { status: 404 })
    const { actor, setCookie } = actorOrNew(request)
    const response = files(request, actor) ?? new Response('Not found', { status: 404 })
    if (setCookie !== undefined) response.headers.append('set-cookie', setCookie)
    return response
  },
})

/** Ready is: the rows can be reached. Without the other two it still serves what it can. */
async function health(): Promise<Response> {
  const reached = await client`select 1`.then(
    () => true,
    () => false,
  )
  return Response.json({ postgres: reached }, { status: reached ? 200 : 503 })
}

server.listen(port, () => console.log(JSON.stringify({ listening: server.address() })))

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.once(signal, () => {
    server.close(() => void client.end({ timeout: 5 }))
    if ('closeAllConnections' in server) server.closeAllConnections()
  })
}
