/**
 * Replication, shapes and the database connections between them, as one thing that starts and stops:
 * the sync server without HTTP.
 */
import { devStackError } from '../dev-stack-error.js'
import { createArrivals } from './arrivals.js'
import type { Arrivals } from './arrivals.js'
import type { SyncPeers } from './peers.js'
import { createPipeline } from './pipeline.js'
import type { Pipeline } from './pipeline.js'
import { ensurePublication, PUBLICATION } from './publication.js'
import { startReplication } from './replication.js'
import type { Replication } from './replication.js'
import { createSession } from './session.js'
import type { Session } from './session.js'
import { createShapeTables } from './shape-tables.js'
import type { ShapeTables } from './shape-tables.js'
import { createShapes } from './shapes.js'
import type { Shapes } from './shapes.js'
import { findLostTables } from './table-facts.js'
import { createTextPool } from './text-connections.js'
import type { TextPool } from './text-connections.js'

export interface Engine {
  pool: TextPool
  shapes: Shapes
  arrivals: Arrivals
  isActive(): boolean
  stop(): Promise<void>
}

export interface EngineOptions {
  peers: SyncPeers
  databaseUrl: string
  shapeLogBytes: number
  shapeIdleMs: number
  tableCheckMs: number
  onLog(line: string): void
}

/** A slot waits for transactions that were open before it; the server is up meanwhile. */
const START_PATIENCE_MS = 3_000
const QUERY_CONNECTIONS = 6
const EVALUATION_CONNECTIONS = 2

export async function startEngine(options: EngineOptions): Promise<Engine> {
  const { peers, databaseUrl } = options
  const pool = createTextPool(peers, databaseUrl, QUERY_CONNECTIONS)
  const evaluationPool = createTextPool(peers, databaseUrl, EVALUATION_CONNECTIONS)
  const endPools = async () => {
    await Promise.all([pool.end(), evaluationPool.end()])
  }
  try {
    await requireLogicalWal(pool)
  } catch (thrown) {
    await endPools()
    throw thrown
  }
  const session = createSession()
  const parts = connectParts(options, { pool, evaluationPool, session })
  const { shapes, arrivals } = parts
  const upkeep = startUpkeep(options, parts, pool)
  const stop = async () => {
    upkeep.stop()
    session.end('stopped')
    shapes.rotateAll('the server stops')
    await stopReplication(parts, pool)
    await endPools()
  }
  const problem = await session.firstProblem(START_PATIENCE_MS)
  if (problem === undefined) return { pool, shapes, arrivals, isActive: session.isActive, stop }
  await stop()
  throw devStackError(
    `The sync server could not follow the database: ${problem}. It needs a role that may ` +
      'replicate and create a publication, and a free replication slot (max_replication_slots).',
  )
}

interface Parts {
  shapes: Shapes
  tables: ShapeTables
  arrivals: Arrivals
  pipeline: Pipeline
  replication: Replication
}

/** Who tells whom: replication → pipeline → tables → shapes, and back when a table or the session is lost. */
function connectParts(
  { peers, databaseUrl, shapeLogBytes, onLog }: EngineOptions,
  shared: { pool: TextPool; evaluationPool: TextPool; session: Session },
): Parts {
  const { pool, session } = shared
  const arrivals = createArrivals()
  const pipeline = createPipeline((transactions) => tables.apply(transactions))
  const shapes = createShapes({
    ...shared,
    pipeline,
    arrivals,
    tables: () => tables,
    described: new Map(),
    session: () => session.current(),
    onLog,
  })
  const tables = createShapeTables({
    rotate: (ending, why) => shapes.rotate(ending, why),
    onApplied: (transaction) => arrivals.add(transaction),
    onGrown(grown) {
      for (const shape of grown) if (shape.compact(shapeLogBytes)) shapes.supersede(shape)
    },
  })
  const replication = startReplication({
    peers,
    databaseUrl,
    publication: PUBLICATION,
    prepare: () => ensurePublication(pool),
    onTransaction: pipeline.push,
    onStarted(lsn) {
      arrivals.startAt(lsn)
      session.begin()
    },
    onLost(why) {
      session.end(why)
      pipeline.clear()
      onLog(`sync server: replication ended (${why})`)
      shapes.rotateAll('replication was lost')
    },
  })
  return { shapes, tables, arrivals, pipeline, replication }
}

/** What nobody tells of: shapes that idle, tables that are gone. */
function startUpkeep(
  { shapeIdleMs, tableCheckMs }: EngineOptions,
  { shapes, tables }: Parts,
  pool: TextPool,
) {
  const dropIdle = () => shapes.dropIdle(shapeIdleMs)
  // A check that fails finds the database away, which replication notices too.
  const loseTables = () =>
    findLostTables(pool.query, tables.facts, PUBLICATION).then(
      (lost) => tables.lose(lost),
      () => {},
    )
  const timers = [
    setInterval(dropIdle, Math.min(shapeIdleMs / 2, 30_000)),
    setInterval(() => void loseTables(), tableCheckMs),
  ]
  for (const timer of timers) timer.unref()
  return { stop: () => timers.forEach((timer) => clearInterval(timer)) }
}

async function stopReplication({ pipeline, replication }: Parts, pool: TextPool): Promise<void> {
  const pid = replication.backendPid
  await pipeline.stop()
  const stopped = replication.stop()
  // A database cannot be dropped while a slot in it is in use: wait until the backend has gone.
  if (pid) await pool.query('select pg_terminate_backend($1, 2000)', [pid]).catch(() => {})
  await stopped
}

async function requireLogicalWal(pool: TextPool): Promise<void> {
  const [row] = await pool.query(`select current_setting('wal_level')`).catch((thrown: unknown) => {
    const why = thrown instanceof Error ? thrown.message : String(thrown)
    throw devStackError(
      `The sync server cannot reach the database: ${why}. Check databaseUrl (DATABASE_URL).`,
      thrown,
    )
  })
  if (row![0] === 'logical') return
  throw devStackError(
    `The sync server needs wal_level = logical, and the database has '${row![0]}'. Set it in its ` +
      'configuration and restart it, or name a real Electric with ELECTRIC_URL.',
  )
}
