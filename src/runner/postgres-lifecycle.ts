/**
 * A lifecycle in Postgres: of any number of processes one works for a runner id, whatever woke them; its checkpoints
 * are rows. A process that dies is followed when its lease runs out; nobody is told of that, so whoever wakes the
 * runner (a queue, a webhook, a timer) has to try again.
 *
 * Also the durable half of `durableStreamsWebhookAdapter()`, which passes its own wakes through it.
 */
import {
  claimRunner,
  forgetCheckpoint,
  readCheckpoints,
  recordCheckpoints,
  releaseRunner,
  renewRunner,
} from '../claims/runner-lease.js'
import type { DurableLifecycle, LifecycleState, RunnerWake } from '../contract/lifecycle.js'
import { AiDbError } from '../errors.js'
import { toDatabase, type DatabaseOptions, type DrizzleDatabase } from '../internal/database.js'
import { refuseUnknownOptions, requireNumber } from '../internal/options.js'

export interface PostgresLifecycleOptions<TWake = RunnerWake> extends DatabaseOptions {
  /** The host's Drizzle database. */
  db: DrizzleDatabase
  /** How long a claim lasts without a heartbeat, in ms; how long a dead holder's work waits. @default 30000 */
  leaseMs?: number
  /** Which runner a wake is for. @default its `runnerId` */
  runnerId?: (wake: TWake) => string
  /** Which delivery it is. @default its `wakeId` */
  wakeId?: (wake: TWake) => string | undefined
}

export interface PostgresLifecycle<TWake = RunnerWake> extends DurableLifecycle<TWake> {
  readonly leaseMs: number
  /** Has a source read from its beginning again. @returns whether there was a checkpoint. */
  forgetCheckpoint(runnerId: string, source: string): Promise<boolean>
}

const NAME = 'postgresLifecycle()'

/** @throws AiDbError INVALID_OPTION, INVALID_INPUT for a `db` that is no Drizzle database. */
export function postgresLifecycle<TWake = RunnerWake>(
  options: PostgresLifecycleOptions<TWake>,
): PostgresLifecycle<TWake> {
  refuseUnknownOptions(NAME, options, ['db', 'schema', 'leaseMs', 'runnerId', 'wakeId'])
  const { leaseMs = 30_000 } = options
  requireNumber(NAME, 'leaseMs', leaseMs, 100)
  const db = toDatabase(options.db, options)
  const runnerOf = (wake: TWake) =>
    requireRunnerId(options.runnerId?.(wake) ?? (wake as Partial<RunnerWake>).runnerId)
  const wakeOf = (wake: TWake) =>
    (options.wakeId ? options.wakeId(wake) : (wake as Partial<RunnerWake>).wakeId) ?? ''
  const heldBy = ({ wake, fenceToken }: LifecycleState<TWake>) =>
    [db, runnerOf(wake), attemptOf(fenceToken)] as const
  return {
    leaseMs,
    async claimWake(wake) {
      const runnerId = runnerOf(wake)
      const attempt = await claimRunner(db, runnerId, wakeOf(wake), leaseMs)
      if (attempt === null) throw rejected(runnerId)
      return { fenceToken: String(attempt) }
    },
    heartbeat: (state) => renewRunner(...heldBy(state), leaseMs),
    checkpoint: (checkpoints, state) => recordCheckpoints(...heldBy(state), checkpoints),
    complete: (state, { done }) => releaseRunner(...heldBy(state), done),
    fail: (state) => releaseRunner(...heldBy(state), false),
    readCheckpoints: (runnerId) => readCheckpoints(db, runnerId),
    forgetCheckpoint: (runnerId, source) => forgetCheckpoint(db, runnerId, source),
  }
}

function requireRunnerId(id: unknown): string {
  if (typeof id === 'string' && id !== '') return id
  throw new AiDbError(
    'INVALID_INPUT',
    'The wake names no runner. Give it a runnerId, or tell postgresLifecycle() how to find one: { runnerId: (wake) => … }.',
    { field: 'runnerId' },
  )
}

/** A fence that is not one of ours holds nothing. */
const attemptOf = (fenceToken: string | undefined) =>
  /^\d{1,9}$/.test(fenceToken ?? '') ? Number(fenceToken) : 0

const rejected = (runnerId: string) =>
  new AiDbError(
    'WAKE_REJECTED',
    `Runner ${runnerId} is held by another process, or has completed this wake. Drop it: whoever holds the work goes on with it.`,
  )
