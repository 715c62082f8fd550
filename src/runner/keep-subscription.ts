/**
 * Keeps a subscription in being: makes it, looks after it, and runs what its server lost.
 *
 * A stream server that restarted may know no subscriptions any more; the one that is made then believes that all was
 * read. Rows know better: a stream whose durable checkpoint lies before the offset the server calls acked is run
 * again, as a wake without a server (a recheck), under the runner's lease. Of many processes that notice, one runs it;
 * the others look again until it is done.
 *
 * Needs an adapter with `lifecycle`: without durable checkpoints nobody knows what was lost.
 */
import { compareCursors } from '../contract/cursor-order.js'
import { AiDbError, toError } from '../errors.js'
import { deferred, delay, jittered } from '../internal/abort.js'
import { refuseUnknownOptions, requireNumber } from '../internal/options.js'
import type { DurableStreamsWebhookAdapter } from '../streams/webhook-adapter.js'
import {
  ensureSubscription,
  type Subscription,
  type SubscriptionOptions,
} from '../streams/webhook-subscription.js'
import type { DurableStreamsWake, WakeStream } from '../streams/webhook-wake.js'
import { createBell } from './bell.js'
import { runWake, type RunWake } from './run-wake.js'

export interface KeepSubscriptionOptions {
  subscription: SubscriptionOptions
  adapter: DurableStreamsWebhookAdapter
  /** The same work as for its wakes. */
  run: RunWake
  /** How often it is looked after, in ms. @default 30000 */
  everyMs?: number
  /** Stops it, like `stop()`. */
  signal?: AbortSignal
  /** Told of what failed and is tried again. */
  onError?: (error: Error) => void
}

export interface SubscriptionKeeper extends AsyncDisposable {
  /** Resolves when the subscription is there and nothing lost is left unread. */
  readonly ready: Promise<void>
  /** Look now: the adapter's `onSubscriptionLost` calls it. */
  poke(): void
  /** Idempotent; waits for a recheck that is at work, whose session is aborted. */
  stop(): Promise<void>
}

const NAME = 'keepSubscription()'
const FIRST_RETRY_MS = 250

export function keepSubscription(options: KeepSubscriptionOptions): SubscriptionKeeper {
  const known = ['subscription', 'adapter', 'run', 'everyMs', 'signal', 'onError']
  refuseUnknownOptions(NAME, options, known)
  const { everyMs = 30_000, signal } = options
  requireNumber(NAME, 'everyMs', everyMs, 10)
  if (!options.adapter.lifecycle) {
    throw new AiDbError(
      'INVALID_OPTION',
      `${NAME}: the adapter has no lifecycle, so nobody knows what was read. Give durableStreamsWebhookAdapter() a lifecycle: postgresLifecycle({ db }).`,
      { field: 'adapter' },
    )
  }
  const stopping = new AbortController()
  const abort = () => stopping.abort()
  signal?.addEventListener('abort', abort, { once: true })
  if (signal?.aborted) abort()
  const ready = deferred()
  const bell = createBell(stopping.signal)
  const looking = (async () => {
    while (await look(options, stopping.signal)) {
      ready.resolve()
      await bell.wait(jittered(everyMs))
    }
  })()
  const stop = async () => {
    stopping.abort()
    await looking
    signal?.removeEventListener('abort', abort)
  }
  return { ready: ready.promise, poke: bell.ring, stop, [Symbol.asyncDispose]: stop }
}

/** @returns false when it was stopped before all was well. */
async function look(options: KeepSubscriptionOptions, signal: AbortSignal): Promise<boolean> {
  for (let tries = 0; !signal.aborted; tries += 1) {
    try {
      const subscription = await ensureSubscription(options.subscription)
      if (await recheck(subscription, options, signal)) return true
    } catch (thrown) {
      if (!signal.aborted) options.onError?.(toError(thrown))
    }
    await delay(jittered(Math.min(10_000, FIRST_RETRY_MS * 2 ** Math.min(tries, 6))), signal)
  }
  return false
}

/** @returns true when nothing is lost, false when somebody is at it, or there is more. */
async function recheck(
  subscription: Subscription,
  options: KeepSubscriptionOptions,
  signal: AbortSignal,
): Promise<boolean> {
  const { adapter, run } = options
  const lost = await lostStreams(subscription, adapter)
  if (lost.length === 0) return true
  const wake: DurableStreamsWake = {
    subscriptionId: subscription.id,
    wakeId: `recheck-${crypto.randomUUID()}`,
    generation: 0,
    streams: lost,
    callbackUrl: null,
    callbackToken: '',
  }
  const outcome = await runWake(wake, { adapter, run, signal })
  return outcome === 'ran' && (await lostStreams(subscription, adapter)).length === 0
}

/** Streams of which the server believes more read than is recorded. */
async function lostStreams(
  subscription: Subscription,
  adapter: DurableStreamsWebhookAdapter,
): Promise<WakeStream[]> {
  const checkpoints = await adapter.lifecycle!.readCheckpoints(subscription.id)
  const recorded = new Map(checkpoints.map(({ source, cursor }) => [source, cursor]))
  return subscription.streams
    .map((stream) => ({
      ...stream,
      ackedOffset: recorded.get(stream.path) ?? '-1',
      tailOffset: stream.ackedOffset,
      hasPending: true,
    }))
    .filter(({ ackedOffset, tailOffset }) => {
      if (tailOffset === '-1' || /^[0_]*$/.test(tailOffset)) return false
      return compareCursors(ackedOffset, tailOffset) < 0
    })
}
