/**
 * The sync server of the development stack: Electric's HTTP shape protocol, for its unmodified clients,
 * over Postgres' own logical replication. For development and tests ONLY: it keeps every shape in the
 * memory of this process, forgets them all when it stops, and leaves access to one shared secret.
 * Production has Electric.
 *
 * From the database: replication.ts (whole transactions) → pipeline.ts (batches) → shape-tables.ts
 * (who is concerned) → shape.ts (messages, log) → live.ts (who waits). From a client: http.ts →
 * requests.ts → shape-handler.ts → shapes.ts (the shape, new or known) → answers.ts.
 *
 * Not served: tables without a place in replication (views, partitioned and unlogged tables), generated
 * columns, subqueries in a where.
 */
import { createServer } from 'node:http'
import type { Server } from 'node:http'
import { refuseUnknownOptions, requireNumber } from '../../internal/options.js'
import { choosePort, HOST, portError } from '../ports.js'
import { startEngine } from './engine.js'
import { createRequestListener, sendError } from './http.js'
import { createLive } from './live.js'
import type { Live } from './live.js'
import { loadSyncPeers } from './peers.js'
import { createShapeHandler } from './shape-handler.js'

export interface SyncServerOptions {
  /** The database whose tables are served; it needs `wal_level = logical`. */
  databaseUrl: string
  /** 0 takes any free port. @default `rememberedPort`, if it is free */
  port?: number
  /** The port of the last run, tried first when no port is asked for. */
  rememberedPort?: number
  /** The address to listen on. @default '127.0.0.1' */
  host?: string
  /** Every request for a shape must carry it as `?secret=`. @default none is asked for */
  secret?: string
  /** How long a live request is held when nothing happens, in milliseconds. @default 20000 */
  longPollMs?: number
  /** How long a live SSE connection lasts, in milliseconds. @default 60000 */
  sseMs?: number
  /** What an SSE client may leave unread before it is cut off, in bytes. @default 4000000 */
  maxUnreadBytes?: number
  /** What the log of one shape may hold; its older half goes when it is full. In bytes. @default 8000000 */
  shapeLogBytes?: number
  /** A shape nobody asked for is dropped after this, in milliseconds. @default 300000 */
  shapeIdleMs?: number
  /** How often it looks whether its tables are still there, in milliseconds. @default 2000 */
  tableCheckMs?: number
  /** Receives what the server logs, line by line. @default nothing listens */
  onLog?: (line: string) => void
}

export interface SyncServer extends AsyncDisposable {
  /** Origin; the shapes are at `/v1/shape`. */
  url: string
  port: number
  /** Idempotent. Answers waiting clients, then closes every connection. */
  stop(): Promise<void>
}

const DEFAULTS = {
  longPollMs: 20_000,
  sseMs: 60_000,
  maxUnreadBytes: 4_000_000,
  shapeLogBytes: 8_000_000,
  shapeIdleMs: 300_000,
  tableCheckMs: 2_000,
}
const NUMBERS = Object.keys(DEFAULTS) as (keyof typeof DEFAULTS)[]
const KNOWN = ['databaseUrl', 'port', 'rememberedPort', 'host', 'secret', 'onLog', ...NUMBERS]

const PORT_WISH = { service: 'The sync server', option: 'syncPort (--sync-port)' }
/** Subsets by GET carry their clause in the URL. */
const MAX_HEADER_BYTES = 256_000

/** @throws AiDbError DEV_STACK, INVALID_OPTION. */
export async function startSyncServer(options: SyncServerOptions): Promise<SyncServer> {
  refuseUnknownOptions('startSyncServer()', options, KNOWN)
  const resolved = { ...DEFAULTS, ...definedOnly(options) }
  for (const name of NUMBERS) requireNumber('startSyncServer()', name, resolved[name], 1)
  const { databaseUrl, host = HOST, secret, onLog = () => {} } = resolved
  const peers = await loadSyncPeers()
  const engine = await startEngine({ ...resolved, peers, databaseUrl, onLog })
  const handler = createShapeHandler({ ...engine, live: () => live })
  const live: Live = createLive({
    ...resolved,
    tail: () => engine.arrivals.tail,
    refetch: (request, response) => sendError(response, handler.refetch(request)),
  })
  const http = createServer(
    { maxHeaderSize: MAX_HEADER_BYTES, keepAliveTimeout: 65_000 },
    createRequestListener({ shape: handler, secret, isActive: engine.isActive, onLog }),
  )
  try {
    const port = await listen(http, host, options)
    onLog(`sync server: listening on ${host}:${port}, for development and tests only`)
    const url = `http://${host === '0.0.0.0' ? HOST : host}:${port}`
    let stopping: Promise<void> | undefined
    const stop = () =>
      (stopping ??= stopListening(http, live).then(async () => {
        await engine.stop()
      }))
    return { url, port, stop, [Symbol.asyncDispose]: stop }
  } catch (thrown) {
    await engine.stop()
    throw thrown
  }
}

async function listen(http: Server, host: string, options: SyncServerOptions): Promise<number> {
  const remembered = options.rememberedPort
  const port = await choosePort({ ...PORT_WISH, port: options.port, remembered })
  await new Promise<void>((resolve, reject) => {
    http.once('error', (thrown) => reject(portError(PORT_WISH, port, thrown)))
    http.listen(port, host, resolve)
  })
  return port
}

/** Waiting clients get an empty answer and may go on where they were; then every connection ends. */
async function stopListening(http: Server, live: Live): Promise<void> {
  const closed = new Promise<void>((resolve) => http.close(() => resolve()))
  live.stop()
  setImmediate(() => http.closeAllConnections())
  await closed
}

function definedOnly<T extends object>(given: T): T {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as T
}
