/**
 * One unit of work between a claim and an end: claim, work with heartbeats and checkpoints, then complete or fail.
 *
 * - Nothing is run before the claim, and nothing at all when the claim is refused.
 * - One of `complete` and `fail` reaches the adapter, once. Who returns without either has `done: false` said for
 *   him: idle is never claimed by accident. A session that lost its wake says neither, for it could not land.
 * - The work is waited for, also when it was aborted, so that nothing of it runs on behind the caller.
 * - It leaves no timer and no listener.
 */
import type {
  LifecycleState,
  RunnerLifecycleAdapter,
  RunnerSession,
} from '../contract/lifecycle.js'
import { raceAbort } from '../internal/abort.js'
import { refuseUnknownOptions, requireNumber } from '../internal/options.js'
import { toError } from '../errors.js'
import { LifecycleSession, type HeartbeatPolicy } from './lifecycle-session.js'

export interface RunWithLifecycleOptions extends HeartbeatPolicy {
  /** Aborts the session's signal; the work ends as it likes. Before the claim: nothing is run. */
  signal?: AbortSignal
}

const NAME = 'runWithLifecycle()'

/**
 * @returns what `handler` returned.
 * @throws what the claim threw (WAKE_REJECTED: nothing ran); FENCED when the wake was lost meanwhile;
 *   what `handler` threw, after the adapter's `fail`.
 */
export async function runWithLifecycle<TWake, TResult>(
  wake: TWake,
  adapter: RunnerLifecycleAdapter<TWake>,
  handler: (session: RunnerSession<TWake>) => Promise<TResult>,
  options: RunWithLifecycleOptions = {},
): Promise<TResult> {
  refuseUnknownOptions(NAME, options, ['signal', 'heartbeatIntervalMs', 'onHeartbeatError'])
  if (options.heartbeatIntervalMs !== undefined) {
    requireNumber(NAME, 'heartbeatIntervalMs', options.heartbeatIntervalMs)
  }
  const signal = options.signal ?? new AbortController().signal
  const state = await claim(wake, adapter, signal)
  const session = new LifecycleSession(adapter, state, { ...options, signal })
  try {
    const result = await handler(session)
    await session.leave()
    return result
  } catch (thrown) {
    throw await session.giveUp(toError(thrown))
  } finally {
    session.dispose()
  }
}

/** A claim that arrives after the host gave up is handed back: nobody would work under it. */
async function claim<TWake>(
  wake: TWake,
  adapter: RunnerLifecycleAdapter<TWake>,
  signal: AbortSignal,
): Promise<LifecycleState<TWake>> {
  signal.throwIfAborted()
  const claimed = adapter
    .claimWake(wake, { signal })
    .then((answer): LifecycleState<TWake> =>
      answer.fenceToken === undefined ? { wake } : { wake, fenceToken: answer.fenceToken },
    )
  try {
    return await raceAbort(claimed, signal)
  } catch (thrown) {
    if (signal.aborted) {
      const handBack = (state: LifecycleState<TWake>) => adapter.fail?.(state, toError(thrown))
      claimed.then(handBack).catch(() => undefined)
    }
    throw thrown
  }
}
