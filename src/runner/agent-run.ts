/**
 * What a worker asks of an agent, and what an agent's run gets from its worker. The worker knows nothing of
 * models; the agent knows nothing of slots and leases.
 */
import type { ClaimedGeneration } from '../claims/claim-generations.js'
import type { Database } from '../internal/database.js'
import type { Ring } from './doorbell.js'
import type { WorkerEventListener } from './events.js'

/** Made by `defineAgent()`. */
export interface Agent {
  readonly name: string
  readonly maxAttempts: number
  /** Runs a claimed generation until it is settled, put down or fenced. Rejects only for what it cannot handle. */
  run(generation: ClaimedGeneration, run: AgentRun): Promise<void>
}

/** Where live text goes: a stream server, or chunk rows where there is none. */
export interface StreamsOptions {
  /** The stream server's base URL. Absent: live text is packed into `chunks` rows. */
  url?: string | undefined
  headers?: Readonly<Record<string, string>> | undefined
}

export interface AgentRun {
  db: Database
  workerId: string
  streams: StreamsOptions
  /** Aborts with a `RunEnd`: cancelled, shutdown, or lease lost. */
  signal: AbortSignal
  onRing(listener: (ring: Ring) => void): () => void
  /** How often to look where rings may not arrive, in ms. */
  pollIntervalMs: number
  emit: WorkerEventListener
  faultPoint(point: FaultPoint): void | Promise<void>
  /** Keeps work that outlives the slot (closing a stream) until the worker stops. */
  afterwards(work: Promise<unknown>): void
}

/** Why a run was ended from outside: the reason of its abort signal. */
export class RunEnd extends Error {
  override readonly name = 'RunEnd'
  constructor(readonly why: 'cancelled' | 'shutdown' | 'lease-lost') {
    super(`the run was ended: ${why}`)
  }
}

/** Named moments at which tests kill, stop or hold a worker. */
export type FaultPoint =
  | 'claimed'
  | 'before-provider-call'
  | 'mid-text'
  | 'mid-tool-arguments'
  | 'before-step'
  | 'step-recorded'
  | 'after-side-effect'
  | 'tool-settled'
  | 'before-cutover'
  | 'after-cutover'
