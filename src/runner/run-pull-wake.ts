/**
 * A worker of a pull-wake subscription: claim, run, end, again. Any number of processes may run one for the same
 * subscription; the server gives each wake to one, and the adapter's lifecycle sees to it when the server forgets.
 *
 * It keeps the subscription in being as well (`keepSubscription()`), and hears of wakes on its wake stream; a slow,
 * jittered poll is the net below that. What failed is given back at once, and claimed again here only after a pause
 * that doubles.
 */
import { toError } from '../errors.js'
import { delay, jittered } from '../internal/abort.js'
import { refuseUnknownOptions, requireNumber } from '../internal/options.js'
import { backoffMs } from '../streams/backoff.js'
import { claimPullWake, hearWakes } from '../streams/pull-wakes.js'
import type { DurableStreamsWebhookAdapter } from '../streams/webhook-adapter.js'
import type { SubscriptionOptions } from '../streams/webhook-subscription.js'
import { createBell } from './bell.js'
import { keepSubscription } from './keep-subscription.js'
import { runWake, type RunWake } from './run-wake.js'

export interface RunPullWakeOptions {
  /** With a `wakeStream`. */
  subscription: SubscriptionOptions & { wakeStream: string }
  /** Who claims, for people. */
  worker: string
  adapter: DurableStreamsWebhookAdapter
  run: RunWake
  /** Ends it; a session at work is aborted, and waited for. */
  signal: AbortSignal
  /** A claim is tried at least every so many ms. @default 30000 */
  pollMs?: number
  /** The pause after the first failure, in ms; it doubles up to a minute. @default 1000 */
  retryMs?: number
  /** Told of what failed and is tried again. */
  onError?: (error: Error) => void
}

const NAME = 'runPullWake()'
const KNOWN = [
  ...['subscription', 'worker', 'adapter', 'run', 'signal', 'pollMs', 'retryMs', 'onError'],
]

/** Resolves when the signal has aborted and nothing of it runs any more. */
export async function runPullWake(options: RunPullWakeOptions): Promise<void> {
  refuseUnknownOptions(NAME, options, KNOWN)
  const { subscription, adapter, run, signal, onError, pollMs = 30_000 } = options
  requireNumber(NAME, 'pollMs', pollMs, 10)
  const bell = createBell(signal)
  const keeper = keepSubscription({
    ...{ subscription, adapter, run, signal, everyMs: pollMs },
    ...(onError ? { onError } : {}),
  })
  await Promise.race([keeper.ready, aborted(signal)])
  const hearing = hearWakes(subscription, bell.ring, { signal, onError })
  let failures = 0
  while (!signal.aborted) {
    try {
      const next = await claimPullWake(subscription, options.worker)
      if (next === 'lost') keeper.poke()
      if (typeof next === 'string') {
        await bell.wait(jittered(pollMs))
        continue
      }
      const outcome = await runWake(next, { adapter, run, signal })
      failures = 0
      if (outcome !== 'ran') await bell.wait(jittered(options.retryMs ?? 1_000))
    } catch (thrown) {
      if (signal.aborted) break
      onError?.(toError(thrown))
      await delay(backoffMs(failures++, options.retryMs ?? 1_000, 60_000), signal)
    }
  }
  await Promise.all([hearing, keeper.stop()])
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}
