/**
 * The development stack: everything a demo or a test run needs, from npm alone. It is a real
 * Postgres, a real Durable Streams server and a sync server that speaks Electric's protocol, on this
 * machine and for this machine only. A service whose URL is in the environment is used as it is:
 * nothing may depend on which of the two it is.
 *
 * What this is not: production. There a Postgres, a streams server and Electric run on their own.
 */
import { makeDataDir } from './cluster-place.js'
import { ensureDatabase } from './database.js'
import { rememberedPorts, rememberPorts } from './ports.js'
import { startPostgres } from './postgres.js'
import { lockDataDir } from './stack-lock.js'
import { resolveDevStackOptions } from './stack-options.js'
import type { DevStackOptions, ResolvedDevStackOptions } from './stack-options.js'
import { startStreamsServer } from './streams-server.js'
import { startSyncServer } from './sync-server/server.js'

export interface DevStack extends AsyncDisposable {
  databaseUrl: string
  streamsUrl: string
  /** Origin of Electric, or of what stands in for it. */
  electricUrl: string
  dataDir: string
  /** How long the start took, in milliseconds. */
  readyMs: number
  /** Which services this stack started itself; the others came from the environment. */
  started: { postgres: boolean; streams: boolean; sync: boolean }
  /** Idempotent. Stops what was started; the data stays. */
  stop(): Promise<void>
}

export async function startDevStack(options: DevStackOptions = {}): Promise<DevStack> {
  const startedAt = performance.now()
  const resolved = resolveDevStackOptions(options)
  const { dataDir, env } = resolved
  const started = {
    postgres: !env.DATABASE_URL,
    streams: !env.STREAMS_URL,
    sync: !env.ELECTRIC_URL,
  }
  // Undone in reverse, on stop and when a later step of the start fails.
  const undo: Undo[] = []
  const stop = onlyOnce(() => undoAll(undo))
  try {
    if (Object.values(started).includes(true)) await makeDataDir(dataDir)
    const lock = started.postgres ? await lockDataDir(dataDir) : undefined
    if (lock) undo.push(() => lock.release())
    const databaseUrl = env.DATABASE_URL || (await ownPostgres(resolved, undo))
    const streamsUrl = env.STREAMS_URL || (await ownStreams(resolved, undo))
    const electricUrl = env.ELECTRIC_URL || (await ownSync(resolved, databaseUrl, undo))
    const urls = { databaseUrl, streamsUrl, electricUrl }
    await lock?.publish(urls)
    const readyMs = Math.round(performance.now() - startedAt)
    return { ...urls, dataDir, readyMs, started, stop, [Symbol.asyncDispose]: stop }
  } catch (thrown) {
    await stop()
    throw thrown
  }
}

type Undo = () => Promise<void>

async function ownPostgres(options: ResolvedDevStackOptions, undo: Undo[]): Promise<string> {
  const { dataDir, postgresPort: port, onLog } = options
  const server = await startPostgres({ dataDir, port, onLog })
  undo.push(() => server.stop())
  return ensureDatabase(server.serverUrl, options.database)
}

async function ownStreams(options: ResolvedDevStackOptions, undo: Undo[]): Promise<string> {
  const { dataDir, streamsPort: port } = options
  const { streams: rememberedPort } = await rememberedPorts(dataDir)
  const server = await startStreamsServer({ port, rememberedPort })
  undo.push(() => server.stop())
  await rememberPorts(dataDir, { streams: server.port })
  return server.url
}

async function ownSync(
  options: ResolvedDevStackOptions,
  databaseUrl: string,
  undo: Undo[],
): Promise<string> {
  const { dataDir, syncPort: port, onLog } = options
  const { sync: rememberedPort } = await rememberedPorts(dataDir)
  const server = await startSyncServer({ databaseUrl, port, rememberedPort, onLog })
  undo.push(() => server.stop())
  await rememberPorts(dataDir, { sync: server.port })
  return server.url
}

async function undoAll(undo: readonly Undo[]): Promise<void> {
  for (const step of undo.toReversed()) await step()
}

function onlyOnce(action: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined
  return () => (done ??= action())
}
