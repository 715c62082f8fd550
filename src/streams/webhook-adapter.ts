/**
 * The lifecycle of a Durable Streams subscription, for delivered wakes (webhook) and claimed ones (pull).
 *
 * The delivery is the server's claim: one wake of a subscription is out at a time, its generation is the fence, and a
 * heartbeat asks whether it still is. That is not enough for one run: the same wake may be delivered twice, and a
 * server that restarted knows of no wake at all. With `lifecycle` (`postgresLifecycle()`) the runner's lease decides,
 * its checkpoints say what is read, and the server's offsets only say when to wake. Without it one process runs a
 * wake once.
 *
 * Always the durable side first: what the server believes acked is recorded already. So a source whose checkpoint lies
 * before the server's offset was lost by the server, and is to be read again (`keepSubscription()`).
 */
import { advanceCheckpoints } from '../contract/advance-checkpoints.js'
import { compareCursors } from '../contract/cursor-order.js'
import type {
  CheckpointContract,
  DurableLifecycle,
  LifecycleState,
  RunnerLifecycleAdapter,
  RunnerWake,
  WebhookExecutionMode,
} from '../contract/lifecycle.js'
import { AiDbError } from '../errors.js'
import { refuseUnknownOptions, requireNumber } from '../internal/options.js'
import { HeldWakes, type HeldWake } from './held-wakes.js'
import { postWakeCallback, type PostCallback } from './webhook-callback.js'
import { createWebhookVerifier } from './webhook-signature.js'
import type { DurableStreamsWake } from './webhook-wake.js'

export interface DurableStreamsWebhookAdapterOptions {
  /** Base URL of the stream server; its keys verify the webhooks. Or give `verifySignature`. */
  streamsUrl?: string | URL
  /** Rejects what did not come from the server. false: nothing is verified; only behind something that does. */
  verifySignature?: ((request: Request) => Promise<void>) | false
  /** When webhooks are answered. @default { type: 'ack-immediate' } */
  mode?: WebhookExecutionMode
  /** Lease and checkpoints that outlive processes and the stream server. */
  lifecycle?: DurableLifecycle<RunnerWake>
  /** The subscription's `lease_ttl_ms`, in ms. @default 30000 */
  leaseMs?: number
  /** How often a heartbeat is sent, in ms. @default a third of the shorter lease */
  heartbeatIntervalMs?: number
  /** A wake that got nowhere is given back at once only if it took so long, in ms; else its lease runs out. @default 1000 */
  minWakeMs?: number
  /** Sends a callback. @default a POST with the wake's token, tried four times */
  postCallback?: PostCallback
  /** The server does not know the subscription, or not this wake: see to it with `keepSubscription()`. */
  onSubscriptionLost?: (subscriptionId: string) => void
  headers?: Readonly<Record<string, string>>
  fetch?: typeof fetch
}

/** What of a stream is unread. */
export interface UnreadStream {
  source: string
  /** Read on behind this offset; `-1` for the beginning. */
  from: string
  /** Its end when the wake was made, null when unknown. There may be more by now. */
  tail: string | null
}

export interface DurableStreamsWebhookAdapter extends RunnerLifecycleAdapter<DurableStreamsWake> {
  readonly mode: WebhookExecutionMode
  readonly leaseMs: number
  readonly lifecycle: DurableLifecycle<RunnerWake> | undefined
  /** @throws AiDbError UNAUTHENTICATED. */
  verifySignature(request: Request): Promise<void>
  /** Where to read on: from the durable checkpoints if there are any, else from the server's offsets. */
  readUnread(wake: DurableStreamsWake): Promise<UnreadStream[]>
}

const NAME = 'durableStreamsWebhookAdapter()'
const KNOWN = [
  ...['streamsUrl', 'verifySignature', 'mode', 'lifecycle', 'leaseMs', 'heartbeatIntervalMs'],
  ...['minWakeMs', 'postCallback', 'onSubscriptionLost', 'headers', 'fetch'],
]

export function durableStreamsWebhookAdapter(
  options: DurableStreamsWebhookAdapterOptions,
): DurableStreamsWebhookAdapter {
  refuseUnknownOptions(NAME, options, KNOWN)
  const { lifecycle, leaseMs = 30_000, minWakeMs = 1_000, heartbeatIntervalMs } = options
  requireNumber(NAME, 'leaseMs', leaseMs, 100)
  requireNumber(NAME, 'minWakeMs', minWakeMs)
  const wakes = new HeldWakes(lifecycle, {
    post: options.postCallback ?? postWakeCallback(options),
    onSubscriptionLost: options.onSubscriptionLost,
  })
  return {
    mode: options.mode ?? { type: 'ack-immediate' },
    lifecycle,
    leaseMs: Math.min(leaseMs, lifecycle?.leaseMs ?? leaseMs),
    ...(heartbeatIntervalMs === undefined ? {} : { heartbeatIntervalMs }),
    verifySignature: verifierOf(options),
    claimWake: (wake, { signal }) => wakes.claim(wake, signal),
    heartbeat: (state) =>
      wakes.use(state, async (held) => {
        await lifecycle?.heartbeat?.(held.durable)
        await wakes.tell(held, {})
      }),
    checkpoint: (checkpoints, state) =>
      wakes.use(state, (held) => recordAndAck(wakes, held, checkpoints, lifecycle)),
    complete: (state, { done }) =>
      wakes.use(state, (held) => complete(wakes, held, { done, minWakeMs, lifecycle })),
    fail: (state, error) => wakes.giveBack(state, error),
    readUnread: (wake) => readUnread(wake, lifecycle),
  }
}

async function recordAndAck(
  wakes: HeldWakes,
  held: HeldWake,
  checkpoints: readonly CheckpointContract[],
  lifecycle: DurableLifecycle<RunnerWake> | undefined,
): Promise<void> {
  const forward = advanceCheckpoints(held.recorded, checkpoints, compareCursors)
  await lifecycle?.checkpoint?.(forward, held.durable)
  for (const { source, cursor } of forward) held.recorded.set(source, cursor)
  held.acks.reach(forward)
  const acks = held.acks.unsent(false)
  await wakes.tell(held, acks.length > 0 ? { acks } : {})
  held.acks.markSent(acks)
}

interface Completion {
  done: boolean
  minWakeMs: number
  lifecycle: DurableLifecycle<RunnerWake> | undefined
}

async function complete(wakes: HeldWakes, held: HeldWake, how: Completion): Promise<void> {
  const { acks } = held
  if (how.done) {
    const vouched = await notBehind(held.wake, acks.untouched(), how.lifecycle)
    if (vouched.length > 0) await how.lifecycle?.checkpoint?.(vouched, held.durable)
    acks.reach(acks.untouched())
  }
  // Before the server is told: the next wake, which may come at once, must find the runner free.
  await how.lifecycle?.complete?.(held.durable, { done: how.done })
  wakes.forget(held)
  const atRest = how.done && acks.exhausted
  const worthIt = acks.progressed || performance.now() - held.claimedAt >= how.minWakeMs
  if (!atRest && !worthIt) return
  const left = acks.unsent(how.done)
  await wakes.tell(held, { ...(left.length > 0 ? { acks: left } : {}), done: true })
}

/** Without those that the durable checkpoint has passed already: a late wake's ends may be old. */
async function notBehind(
  wake: DurableStreamsWake,
  checkpoints: readonly CheckpointContract[],
  lifecycle: DurableLifecycle<RunnerWake> | undefined,
): Promise<CheckpointContract[]> {
  if (!lifecycle || checkpoints.length === 0) return []
  const recorded = await recordedBy(wake, lifecycle)
  return checkpoints.filter(
    ({ source, cursor }) => compareCursors(cursor, recorded.get(source) ?? '-1') > 0,
  )
}

async function readUnread(
  wake: DurableStreamsWake,
  lifecycle: DurableLifecycle<RunnerWake> | undefined,
): Promise<UnreadStream[]> {
  const recorded = lifecycle && (await recordedBy(wake, lifecycle))
  return wake.streams
    .map(({ path, ackedOffset, tailOffset }) => ({
      source: path,
      from: recorded ? (recorded.get(path) ?? '-1') : ackedOffset,
      tail: tailOffset,
    }))
    .filter(({ from, tail }) => tail === null || compareCursors(from, tail) < 0)
}

async function recordedBy(wake: DurableStreamsWake, lifecycle: DurableLifecycle<RunnerWake>) {
  const all = await lifecycle.readCheckpoints(wake.subscriptionId)
  return new Map(all.map(({ source, cursor }) => [source, cursor]))
}

function verifierOf(options: DurableStreamsWebhookAdapterOptions) {
  const { verifySignature, streamsUrl } = options
  if (verifySignature === false) return () => Promise.resolve()
  if (verifySignature) return verifySignature
  if (streamsUrl === undefined) {
    throw new AiDbError(
      'INVALID_OPTION',
      `${NAME}: streamsUrl is missing, so there are no keys to verify webhooks with. Pass streamsUrl, or verifySignature.`,
      { field: 'streamsUrl' },
    )
  }
  const jwksUrl = `${String(streamsUrl).replace(/\/+$/, '')}/v1/stream/__ds/jwks.json`
  const verify = createWebhookVerifier({
    jwksUrl,
    ...(options.fetch ? { fetch: options.fetch } : {}),
  })
  return async (request: Request) =>
    verify(request.headers.get('Webhook-Signature'), await request.text())
}

export type DurableStreamsState = LifecycleState<DurableStreamsWake>
