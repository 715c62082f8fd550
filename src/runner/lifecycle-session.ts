/**
 * The session of one claimed wake. Its calls reach the adapter one after another, in the order they were made, so
 * that no heartbeat follows the end and no checkpoint overtakes one.
 *
 * Ends: `complete` or `fail`, whichever is called first. Lost: the adapter said FENCED, or no heartbeat got through
 * for as long as a lease lasts; the signal aborts, and every call from then on rejects with that error.
 */
import { AiDbError } from '../errors.js'
import { advanceCheckpoints } from '../contract/advance-checkpoints.js'
import { compareCursors } from '../contract/cursor-order.js'
import type {
  CheckpointContract,
  LifecycleState,
  RunnerLifecycleAdapter,
  RunnerSession,
} from '../contract/lifecycle.js'
import { raceAbort } from '../internal/abort.js'
import { startHeartbeats } from './heartbeats.js'

export interface HeartbeatPolicy {
  /**
   * A heartbeat every so many ms while the work runs; 0 for none.
   * @default the adapter's `heartbeatIntervalMs`, or a third of its `leaseMs`, or none
   */
  heartbeatIntervalMs?: number
  /** Told when a heartbeat failed that will be tried again. */
  onHeartbeatError?: (error: Error) => void
}

type SessionOptions = HeartbeatPolicy & { signal: AbortSignal }

export class LifecycleSession<TWake> implements RunnerSession<TWake> {
  readonly wake: TWake
  readonly fenceToken?: string
  readonly signal: AbortSignal
  readonly #adapter: RunnerLifecycleAdapter<TWake>
  readonly #state: LifecycleState<TWake>
  readonly #abort = new AbortController()
  /** Aborts with the FENCED error when the wake is lost, and for no other reason. */
  readonly #lost = new AbortController()
  readonly #recorded = new Map<string, string>()
  readonly #stopHeartbeats: () => void
  readonly #unlink: () => void
  #ended: 'complete' | 'fail' | undefined
  #last: Promise<unknown> = Promise.resolve()

  constructor(
    adapter: RunnerLifecycleAdapter<TWake>,
    state: LifecycleState<TWake>,
    options: SessionOptions,
  ) {
    this.#adapter = adapter
    this.#state = state
    this.wake = state.wake
    if (state.fenceToken !== undefined) this.fenceToken = state.fenceToken
    this.signal = this.#abort.signal
    const passOn = () => this.#abort.abort(options.signal.reason)
    options.signal.addEventListener('abort', passOn, { once: true })
    if (options.signal.aborted) passOn()
    this.#unlink = () => options.signal.removeEventListener('abort', passOn)
    this.#stopHeartbeats = startHeartbeats({
      ...(adapter.heartbeat ? intervalOf(adapter, options) : { intervalMs: 0 }),
      beat: () => this.heartbeat(),
      onError: options.onHeartbeatError,
      onSilence: (error) => this.#lose(error),
    })
  }

  async heartbeat(): Promise<void> {
    this.#refuseEnded('heartbeat')
    await this.#send(() => this.#adapter.heartbeat?.(this.#state))
  }

  async checkpoint(checkpoints: CheckpointContract[]): Promise<void> {
    this.#refuseEnded('checkpoint')
    const compare = this.#adapter.compareCursors?.bind(this.#adapter) ?? compareCursors
    await this.#send(async () => {
      const forward = advanceCheckpoints(this.#recorded, checkpoints, compare)
      if (forward.length === 0) return
      await this.#adapter.checkpoint?.(forward, this.#state)
      for (const { source, cursor } of forward) this.#recorded.set(source, cursor)
    })
  }

  async complete(result: { done: boolean }): Promise<void> {
    this.#end('complete')
    await this.#send(() => this.#adapter.complete?.(this.#state, { done: result.done }))
  }

  async fail(error: Error): Promise<void> {
    this.#end('fail')
    await this.#send(() => this.#adapter.fail?.(this.#state, error))
  }

  /** The work returned. */
  async leave(): Promise<void> {
    this.#lost.signal.throwIfAborted()
    if (!this.#ended) await this.complete({ done: false })
  }

  /** The work threw. @returns what the caller is to throw: the loss of the wake comes before what followed from it. */
  async giveUp(error: Error): Promise<Error> {
    if (!this.#ended && !this.#lost.signal.aborted) await this.fail(error).catch(() => undefined)
    return this.#lost.signal.aborted ? (this.#lost.signal.reason as Error) : error
  }

  /** No timer and no listener is left. */
  dispose(): void {
    this.#ended ??= 'fail'
    this.#stopHeartbeats()
    this.#unlink()
  }

  #end(how: 'complete' | 'fail'): void {
    this.#refuseEnded(how)
    this.#ended = how
    this.#stopHeartbeats()
  }

  #refuseEnded(call: string): void {
    if (!this.#ended) return
    throw new AiDbError(
      'FENCED',
      `${call}() came after ${this.#ended}(): the session has ended. End it once, as the last thing the work does.`,
    )
  }

  /** Behind the calls before it; not waited for any longer once the wake is lost. */
  #send(call: () => Promise<void> | undefined): Promise<void> {
    const turn = this.#last.then(async () => {
      this.#lost.signal.throwIfAborted()
      try {
        await call()
      } catch (thrown) {
        if (thrown instanceof AiDbError && thrown.code === 'FENCED') this.#lose(thrown)
        throw thrown
      }
    })
    this.#last = turn.catch(() => undefined)
    return raceAbort(turn, this.#lost.signal)
  }

  #lose(error: AiDbError): void {
    if (this.#lost.signal.aborted) return
    this.#stopHeartbeats()
    this.#lost.abort(error)
    this.#abort.abort(error)
  }
}

function intervalOf<TWake>(adapter: RunnerLifecycleAdapter<TWake>, options: SessionOptions) {
  const { leaseMs } = adapter
  const intervalMs =
    options.heartbeatIntervalMs ?? adapter.heartbeatIntervalMs ?? (leaseMs ? leaseMs / 3 : 0)
  return { intervalMs, leaseMs }
}
