/**
 * The worker: one process's share of the work. It claims generations of its agents, runs them in its slots,
 * keeps its lease, recovers what dead workers left, and puts its work down when it is stopped.
 *
 * It survives: a lost lease (drops everything, registers anew), a restarted database (waits, goes on from the
 * rows), a lost notification (slow poll). It does not promise that a tool's side effect happens once: see
 * docs/spec.md, "Not promised".
 */
import { claimGenerations, type ClaimedGeneration } from '../claims/claim-generations.js'
import { releaseLostGenerations } from '../claims/release-lost-claims.js'
import { checkHeld } from '../claims/workers.js'
import { AiDbError, toError } from '../errors.js'
import { toDatabase, type Database, type DrizzleDatabase } from '../internal/database.js'
import { refuseUnknownOptions, requireNumber } from '../internal/options.js'
import type { Agent, FaultPoint, StreamsOptions } from './agent-run.js'
import type { WorkerEventListener } from './events.js'
import { startService, type Service, type ServiceOptions } from './service.js'

export interface WorkerOptions {
  /** A Drizzle database of `postgres-js` or `node-postgres`. Its pool should have at least `slots / 2` connections. */
  db: DrizzleDatabase
  agents: readonly Agent[]
  /** Where live text goes. Absent: packed into `chunks` rows, slower and still correct. */
  streams?: StreamsOptions
  /** The Postgres schema of the tables. @default 'ai_db' */
  schema?: string
  /** Generations run at once. @default 10 */
  slots?: number
  /** Generations run at once per `concurrencyKey`, over all workers; give every worker the same. @default no limit */
  concurrencyPerKey?: number
  /** How long others wait for a silent worker before they take its work, in ms. @default 15_000 */
  leaseMs?: number
  /** The safety net under lost notifications, in ms, jittered. @default 5_000 */
  pollIntervalMs?: number
  /** `auto` finds out whether notifications arrive, and polls behind a transaction pooler. @default 'auto' */
  doorbell?: 'auto' | 'listen' | 'poll'
  /** At a stop, how long running generations may take to finish before they are put down, in ms. @default 10_000 */
  shutdownGraceMs?: number
  /** Stop on SIGTERM and SIGINT. @default false */
  handleSignals?: boolean
  onEvent?: WorkerEventListener
  /** For tests: called at each named moment of a run. */
  onFaultPoint?: (point: FaultPoint) => void | Promise<void>
}

export interface Worker extends AsyncDisposable {
  /** Its row in `workers`; changes when a lost lease makes it register anew. */
  readonly workerId: string
  /** Generations running now. */
  readonly running: number
  /** SQL statements sent so far. */
  readonly roundTrips: number
  /** Claims nothing more, lets running work finish or puts it down, and leaves. Idempotent. */
  stop(): Promise<void>
}

const KNOWN = [
  'db',
  'agents',
  'streams',
  'schema',
  'slots',
  'concurrencyPerKey',
  'leaseMs',
  'pollIntervalMs',
  'doorbell',
  'shutdownGraceMs',
  'handleSignals',
  'onEvent',
  'onFaultPoint',
]

/**
 * Starts a worker. Resolves when it is registered and listening.
 *
 * @throws AiDbError INVALID_OPTION, NOT_MIGRATED, PERMISSION_DENIED, DATABASE_UNREACHABLE.
 */
export async function createWorker(options: WorkerOptions): Promise<Worker> {
  const agents = checkedAgents(options)
  const db = toDatabase(options.db, options.schema === undefined ? {} : { schema: options.schema })
  const emit = options.onEvent ?? (() => undefined)
  const maxAttempts = new Map([...agents.values()].map((agent) => [agent.name, agent.maxAttempts]))
  const service = await startService<ClaimedGeneration>({
    ...serviceOptions(options, db, emit),
    agents: [...agents.keys()],
    tools: [],
    claim: (limit, workerId) =>
      claimGenerations(db, {
        workerId,
        agents: maxAttempts,
        limit,
        concurrencyPerKey: options.concurrencyPerKey,
      }),
    concerns: (ring) => ring.kind === 'generation' && agents.has(ring.name),
    cancelledIds: (ids) => checkHeld(db, ids),
    releaseLost: (workerId, running) => releaseLostGenerations(db, workerId, running),
    run: async (generation, held) => {
      const { id, agentName, attempt, queuedMs } = generation
      emit({ type: 'claimed', generationId: id, agentName, attempt, queuedMs })
      try {
        await agents.get(agentName)!.run(generation, {
          ...held,
          db,
          streams: options.streams ?? {},
          emit,
          faultPoint: options.onFaultPoint ?? (() => undefined),
        })
      } catch (thrown) {
        emit({ type: 'error', error: toError(thrown) })
      }
    },
  })
  return asWorker(service, db)
}

/** What a worker and a tool executor share of their options. */
export function serviceOptions(
  options: Pick<
    WorkerOptions,
    'slots' | 'leaseMs' | 'pollIntervalMs' | 'doorbell' | 'shutdownGraceMs' | 'handleSignals'
  >,
  db: Database,
  emit: WorkerEventListener,
): Pick<
  ServiceOptions<{ id: string }>,
  | 'db'
  | 'emit'
  | 'slots'
  | 'leaseMs'
  | 'pollIntervalMs'
  | 'doorbell'
  | 'shutdownGraceMs'
  | 'handleSignals'
> {
  const resolved = {
    slots: options.slots ?? 10,
    leaseMs: options.leaseMs ?? 15_000,
    pollIntervalMs: options.pollIntervalMs ?? 5_000,
    shutdownGraceMs: options.shutdownGraceMs ?? 10_000,
  }
  requireNumber('worker', 'slots', resolved.slots, 1)
  requireNumber('worker', 'leaseMs', resolved.leaseMs, 300)
  requireNumber('worker', 'pollIntervalMs', resolved.pollIntervalMs, 10)
  requireNumber('worker', 'shutdownGraceMs', resolved.shutdownGraceMs, 0)
  return {
    ...resolved,
    db,
    emit,
    doorbell: options.doorbell ?? 'auto',
    handleSignals: options.handleSignals ?? false,
  }
}

export function asWorker(service: Service, db: Database): Worker {
  return {
    get workerId() {
      return service.workerId
    },
    get running() {
      return service.running
    },
    get roundTrips() {
      return db.roundTrips
    },
    stop: () => service.stop(),
    [Symbol.asyncDispose]: () => service.stop(),
  }
}

function checkedAgents(options: WorkerOptions): Map<string, Agent> {
  refuseUnknownOptions('createWorker()', options, KNOWN)
  const agents = new Map<string, Agent>()
  for (const agent of options.agents ?? []) {
    if (typeof agent?.run !== 'function')
      throw badAgents('holds something that defineAgent() did not make')
    if (agents.has(agent.name)) throw badAgents(`holds two agents named '${agent.name}'`)
    agents.set(agent.name, agent)
  }
  if (agents.size === 0) throw badAgents('is empty')
  if (options.concurrencyPerKey !== undefined) {
    requireNumber('createWorker()', 'concurrencyPerKey', options.concurrencyPerKey, 1)
  }
  return agents
}

function badAgents(problem: string): AiDbError {
  return new AiDbError(
    'INVALID_OPTION',
    `createWorker(): agents ${problem}. Pass agents made by defineAgent().`,
    {
      field: 'agents',
    },
  )
}
