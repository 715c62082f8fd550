/**
 * The Durable Streams server of the development stack: the Node reference server, over its memory
 * store. The file store is too slow for it (fifty busy streams fall seconds behind), and what a
 * restart loses is small: the live text of turns that were running. The rows in Postgres are the
 * truth, and a reader who finds no stream reads them.
 *
 * Development only: it asks nobody who he is.
 */
import type { Server } from 'node:http'
import { devStackError, systemCode } from './dev-stack-error.js'
import { choosePort, HOST, portError } from './ports.js'

export interface StreamsServerOptions {
  /** 0 takes any free port. @default `rememberedPort`, if it is free */
  port?: number
  /** The port of the last run, tried first when no port is asked for. */
  rememberedPort?: number
}

export interface StreamsServer {
  url: string
  port: number
  /** Idempotent. Answers waiting readers, then closes every connection. */
  stop(): Promise<void>
}

const PORT_WISH = { service: 'The streams server', option: 'streamsPort (--streams-port)' }

export async function startStreamsServer(
  options: StreamsServerOptions = {},
): Promise<StreamsServer> {
  const { DurableStreamTestServer } = await loadServerPackage()
  const remembered = options.rememberedPort
  const port = await choosePort({ ...PORT_WISH, port: options.port, remembered })
  const server = new DurableStreamTestServer({ port, host: HOST })
  const url = await server.start().catch((thrown: unknown) => {
    throw portError(PORT_WISH, port, thrown)
  })
  let stopping: Promise<void> | undefined
  return { url, port, stop: () => (stopping ??= stopNow(server)) }
}

async function loadServerPackage() {
  try {
    return await import('@durable-streams/server')
  } catch (thrown) {
    if (systemCode(thrown) !== 'ERR_MODULE_NOT_FOUND') throw thrown
    throw devStackError(
      'The development stack needs the package @durable-streams/server, and it is not installed. ' +
        'Run: npm i -D @durable-streams/server',
      thrown,
    )
  }
}

interface Wait {
  resolve(messages: unknown[]): void
}

async function stopNow(server: { stop(): Promise<void> }): Promise<void> {
  // Its stop() walks the list of waits while each leaves it, so every other one keeps its timer, for half a minute,
  // and the process with it. The store and its list are private: without them this only takes longer.
  const { store } = server as unknown as { store?: { pendingLongPolls?: Wait[] } }
  for (const wait of [...(store?.pendingLongPolls ?? [])]) wait.resolve([])
  const stopped = server.stop()
  // Its stop() answers waiting readers but then waits for their connections, which clients keep
  // open for seconds. The HTTP server is a private field: without it this only takes longer.
  const { server: http } = server as unknown as { server?: Server | null }
  setImmediate(() => http?.closeAllConnections())
  await stopped
}
