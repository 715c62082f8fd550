/**
 * The demo's web server: the library's handler under /api, the built page, and the kill route.
 *
 *     browser ── /api/… ──► createHandler ──► Postgres, sync server, stream server
 *             ── / ───────► the built page      ── POST /demo/kill ──► a worker process dies
 *
 * It listens on this machine only, and answers only to this machine's names: a web page that points its own
 * name at 127.0.0.1 gets nothing.
 */
import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import type { PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import { createHandler } from '../../src/server.js'
import { actorOrNew } from './actor-cookie.js'
import { demoAuthorize } from './authorize.js'
import { answerKill } from './kill-worker.js'
import { loadPageFiles } from './page-files.js'
import type { WorkerProcesses } from './worker-processes.js'

export interface WebServerOptions {
  db: PostgresJsDatabase
  /** @default 'ai_db' */
  schema?: string
  electric: { url: string; secret?: string }
  streamsUrl: string
  workers: WorkerProcesses
  /** Where the built page is. */
  pageDirectory: string
  /** Told of what breaks behind a request. @default console.error */
  onError?: (error: unknown) => void
  /** @default 4747, or any free port where that is taken */
  port?: number | undefined
}

export interface WebServer {
  url: string
  /** Ends every connection, the waiting ones too. */
  stop(): Promise<void>
}

const HOST = '127.0.0.1'
const USUAL_PORT = 4747
const NAMES: ReadonlySet<string> = new Set(['localhost', '127.0.0.1'])

export async function startWebServer(options: WebServerOptions): Promise<WebServer> {
  const answer = await makeAnswer(options)
  const server = createAdaptorServer({ fetch: answer, hostname: HOST })
  const listen = (port: number) =>
    new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, HOST, () => {
        server.off('error', reject)
        resolve()
      })
    })
  try {
    await listen(options.port ?? USUAL_PORT)
  } catch (thrown) {
    const isTaken = (thrown as NodeJS.ErrnoException).code === 'EADDRINUSE'
    if (!isTaken) throw thrown
    if (options.port !== undefined) {
      const cure = 'Give --port another number, or 0 for any free one.'
      throw new Error(`Port ${options.port} is taken. ${cure}`, { cause: thrown })
    }
    await listen(0)
  }
  const { port } = server.address() as AddressInfo
  return {
    url: `http://localhost:${port}`,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        if ('closeAllConnections' in server) server.closeAllConnections()
      }),
  }
}

async function makeAnswer(options: WebServerOptions): Promise<(r: Request) => Promise<Response>> {
  const { db, schema = 'ai_db', electric, streamsUrl, workers, pageDirectory, onError } = options
  const files = await loadPageFiles(pageDirectory)
  const api = createHandler({
    db,
    schema,
    electric,
    streams: { url: streamsUrl },
    authorize: demoAuthorize(db, schema),
    basePath: '/api',
    ...(onError && { onError }),
  })
  return async (request) => {
    const { hostname, pathname } = new URL(request.url)
    if (!NAMES.has(hostname)) return new Response('Unknown host', { status: 421 })
    if (pathname.startsWith('/api/')) return api(request)
    if (pathname === '/demo/kill' && request.method === 'POST') return answerKill(request, workers)
    if (request.method !== 'GET') return new Response('Not found', { status: 404 })
    const { actor, setCookie } = actorOrNew(request)
    const response = files(request, actor) ?? new Response('Not found', { status: 404 })
    if (setCookie !== undefined) response.headers.append('set-cookie', setCookie)
    return response
  }
}
