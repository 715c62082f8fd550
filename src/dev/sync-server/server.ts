/**
 * The sync server of the development stack: Electric's HTTP shape protocol over logical replication.
 * Development and tests only.
 */
import { createServer } from 'node:http'
import { choosePort, HOST, portError } from '../ports.js'

export interface SyncServerOptions {
  /** The database whose tables are served; it needs `wal_level = logical`. */
  databaseUrl: string
  /** 0 takes any free port. @default `rememberedPort`, if it is free */
  port?: number
  /** The port of the last run, tried first when no port is asked for. */
  rememberedPort?: number
  /** Every request must carry it as `?secret=`. @default none is asked for */
  secret?: string
  /** How long a live request is held when nothing happens, in milliseconds. @default 20000 */
  longPollMs?: number
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

const PORT_WISH = { service: 'The sync server', option: 'syncPort (--sync-port)' }

export async function startSyncServer(options: SyncServerOptions): Promise<SyncServer> {
  const remembered = options.rememberedPort
  const port = await choosePort({ ...PORT_WISH, port: options.port, remembered })
  const http = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"status":"active"}')
  })
  await new Promise<void>((resolve, reject) => {
    http.once('error', (thrown) => reject(portError(PORT_WISH, port, thrown)))
    http.listen(port, HOST, resolve)
  })
  let stopping: Promise<void> | undefined
  const stopNow = async () => {
    const closed = new Promise<void>((resolve) => http.close(() => resolve()))
    http.closeAllConnections()
    await closed
  }
  const stop = () => (stopping ??= stopNow())
  return { url: `http://${HOST}:${port}`, port, stop, [Symbol.asyncDispose]: stop }
}
