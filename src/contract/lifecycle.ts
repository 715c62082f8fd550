/**
 * The lifecycle of a runner: how a queue, a cron job, an alarm or a webhook hands work to a process, and how that
 * process says that it lives, how far it has come, and that it is done. The RFC's names and signatures.
 *
 * Isomorphic types; who implements the adapter decides what a wake is. Not promised: that a wake is
 * delivered once. A claim that is refused, and a fence that stops the loser, are what makes it run once.
 */

/** How far a source has been read. */
export type CheckpointContract = {
  /** A stream's path, a topic and its partition: any name that stays. Not empty. */
  source: string
  /** Opaque to the library but for its order; see `compareCursors` in src/contract/cursor-order.ts. Not empty. */
  cursor: string
}

/** What an adapter is told of the session it serves: the wake, and what its claim returned. */
export interface LifecycleState<TWake = unknown> {
  wake: TWake
  fenceToken?: string
}

/**
 * What a transport does for a runner. Everything but the claim is optional. A method that finds its fence stale
 * throws an `AiDbError` with the code FENCED; nothing after it can land.
 */
export interface RunnerLifecycleAdapter<TWake = unknown> {
  /**
   * Takes the wake.
   *
   * @throws AiDbError WAKE_REJECTED when it is stale, done, or held by somebody else: nothing is run.
   */
  claimWake(wake: TWake, ctx: { signal: AbortSignal }): Promise<{ fenceToken?: string }>
  /** Says that the work goes on. */
  heartbeat?(state: LifecycleState<TWake>): Promise<void>
  /**
   * Records progress, at most one cursor a source.
   *
   * @throws AiDbError CHECKPOINT_REGRESSED when a cursor comes before the recorded one: none of the batch is kept.
   */
  checkpoint?(checkpoints: CheckpointContract[], state: LifecycleState<TWake>): Promise<void>
  /** The wake is over. `done: false`: there is more to do, wake somebody again. */
  complete?(state: LifecycleState<TWake>, result: { done: boolean }): Promise<void>
  /** The work failed: the wake may be given to somebody else. */
  fail?(state: LifecycleState<TWake>, error: Error): Promise<void>
  /** How long a claim lasts without a heartbeat, in ms. Absent: the transport does not say. */
  readonly leaseMs?: number
  /** How often a heartbeat is sent, in ms. @default a third of `leaseMs` */
  readonly heartbeatIntervalMs?: number
  /** The order of cursors of a source: negative when `a` comes before `b`. @default `compareCursors` */
  compareCursors?(a: string, b: string, source: string): number
}

/** What the work is given. After `complete` or `fail` every call throws. */
export interface RunnerSession<TWake = unknown> {
  wake: TWake
  fenceToken?: string
  /** Aborts when the host's signal does, and when the wake is lost to somebody else. */
  signal: AbortSignal
  heartbeat(): Promise<void>
  /** @throws AiDbError CHECKPOINT_REGRESSED, before anything is sent. */
  checkpoint(checkpoints: CheckpointContract[]): Promise<void>
  complete(result: { done: boolean }): Promise<void>
  fail(error: Error): Promise<void>
}

/** An adapter that keeps checkpoints, and can be asked for them. */
export interface DurableLifecycle<TWake = RunnerWake> extends RunnerLifecycleAdapter<TWake> {
  /** Every source of the runner that has a checkpoint. */
  readCheckpoints(runnerId: string): Promise<CheckpointContract[]>
}

/** The smallest wake: which runner, and which delivery. */
export interface RunnerWake {
  /** One runner works at a time for each id. Not empty. */
  runnerId: string
  /** The delivery. A wake that was completed with `done: true` is refused when it comes again as the next one. */
  wakeId?: string
}

/** When a webhook is answered: when the work has ended, or at once. */
export type WebhookExecutionMode =
  { type: 'request-bound'; maxRequestMs?: number } | { type: 'ack-immediate'; status?: 200 | 202 }
