/**
 * The subscription itself: made once, confirmed at will. One per session: a server has one wake out per subscription,
 * over all its streams, so two sessions under one glob would take turns.
 *
 * Servers may keep subscriptions in memory: after a restart the same request makes a new one, which believes that
 * everything written so far was processed. `keepSubscription()` finds and repairs that.
 */
import { AiDbError } from '../errors.js'
import { refuseUnknownOptions, requireNumber } from '../internal/options.js'
import { askSubscriptions, refusalOf, type SubscriptionAnswer } from './subscription-requests.js'
import { streamsOf, type WakeStream } from './webhook-wake.js'

export interface SubscriptionOptions {
  /** Base URL of the stream server, without `/v1/stream`. */
  streamsUrl: string | URL
  /** The runner's id too: the same in every process, different for every session. */
  id: string
  /** Paths below `/v1/stream/`. */
  streams?: readonly string[]
  /** A glob instead: `*` is one segment, `**` any number. */
  pattern?: string
  /** Where wakes are delivered. */
  webhookUrl?: string
  /** Or the stream that tells of them, for `runPullWake()`; it is created if it is missing. */
  wakeStream?: string
  /** How long a wake lasts without a heartbeat, in ms, 1000 to 600000. @default 30000 */
  leaseMs?: number
  description?: string
  /** A subscription of this id with other settings is deleted first. @default false: it is an error */
  replace?: boolean
  headers?: Readonly<Record<string, string>>
  fetch?: typeof fetch
}

export interface Subscription {
  id: string
  /** This call made it: the server believes that all its streams were read to the end. */
  created: boolean
  streams: WakeStream[]
  leaseMs: number
}

const NAME = 'ensureSubscription()'
const KNOWN = [
  ...['streamsUrl', 'id', 'streams', 'pattern', 'webhookUrl', 'wakeStream', 'leaseMs'],
  ...['description', 'replace', 'headers', 'fetch'],
]

/** The options for one session's stream: an id that no other session has. */
export function sessionSubscription<Rest extends Partial<SubscriptionOptions>>(
  session: { sessionId: string; agentName?: string; stream: string },
  rest: Rest & { streamsUrl: string | URL },
): Rest & { streamsUrl: string | URL; id: string; streams: string[] } {
  const { sessionId, agentName, stream } = session
  const id = ['session', sessionId, ...(agentName === undefined ? [] : [agentName])].join(':')
  return { ...rest, id, streams: [stream] }
}

/**
 * Makes the subscription, or confirms that it is there. Any number of processes may, at any time.
 *
 * @throws AiDbError INVALID_OPTION, DUPLICATE_ID when one of this id has other settings, STREAM_FAILED.
 */
export async function ensureSubscription(options: SubscriptionOptions): Promise<Subscription> {
  checkOptions(options)
  if (options.wakeStream !== undefined) await ensureStream(options, options.wakeStream)
  let answer = await put(options)
  if (answer.code === 'SUBSCRIPTION_ALREADY_EXISTS' && options.replace) {
    await deleteSubscription(options)
    answer = await put(options)
  }
  if (answer.code === 'SUBSCRIPTION_ALREADY_EXISTS') throw otherSettings(options.id)
  const refusal = refusalOf(`Subscription ${options.id}`, answer)
  if (refusal) throw new AiDbError('STREAM_FAILED', refusal.message, { cause: refusal })
  return {
    id: options.id,
    created: answer.status === 201,
    streams: streamsOf(answer.body),
    leaseMs: Number(answer.body['lease_ttl_ms'] ?? options.leaseMs ?? 30_000),
  }
}

/** Idempotent. What was unread stays unread: a subscription of the same id goes on from the durable checkpoints. */
export async function deleteSubscription(
  options: Pick<SubscriptionOptions, 'streamsUrl' | 'id' | 'headers' | 'fetch'>,
): Promise<void> {
  const { headers, fetch } = options
  const url = subscriptionUrl(options)
  const answer = await askSubscriptions({ method: 'DELETE', url, headers, fetch })
  const refusal =
    answer.status === 404 ? undefined : refusalOf(`Subscription ${options.id}`, answer)
  if (refusal) throw refusal
}

export function subscriptionUrl({
  streamsUrl,
  id,
}: Pick<SubscriptionOptions, 'streamsUrl' | 'id'>) {
  return `${streamBase(streamsUrl)}/__ds/subscriptions/${encodeURIComponent(id)}`
}

export const streamBase = (streamsUrl: string | URL) =>
  `${String(streamsUrl).replace(/\/+$/, '')}/v1/stream`

function put(options: SubscriptionOptions): Promise<SubscriptionAnswer> {
  const { streams, pattern, webhookUrl, wakeStream, leaseMs = 30_000, description } = options
  const body = {
    type: webhookUrl === undefined ? 'pull-wake' : 'webhook',
    ...(streams ? { streams } : {}),
    ...(pattern === undefined ? {} : { pattern }),
    ...(webhookUrl === undefined ? { wake_stream: wakeStream } : { webhook: { url: webhookUrl } }),
    lease_ttl_ms: leaseMs,
    ...(description === undefined ? {} : { description }),
  }
  const { headers, fetch } = options
  return askSubscriptions({ method: 'PUT', url: subscriptionUrl(options), body, headers, fetch })
}

async function ensureStream(options: SubscriptionOptions, path: string): Promise<void> {
  const url = `${streamBase(options.streamsUrl)}/${path}`
  const { headers, fetch } = options
  const answer = await askSubscriptions({ method: 'PUT', url, headers, fetch })
  // 409: it is there, with other settings.
  const refusal = answer.status === 409 ? undefined : refusalOf(`Stream ${path}`, answer)
  if (refusal) throw new AiDbError('STREAM_FAILED', refusal.message, { cause: refusal })
}

function checkOptions(options: SubscriptionOptions): void {
  refuseUnknownOptions(NAME, options, KNOWN)
  const { id, streams, pattern, webhookUrl, wakeStream, leaseMs = 30_000 } = options
  requireNumber(NAME, 'leaseMs', leaseMs, 1_000)
  if (typeof id !== 'string' || id === '') throw missing('id', 'Give the subscription an id')
  if (!streams?.length && pattern === undefined)
    throw missing('streams', 'Name streams, or a pattern')
  if ((webhookUrl === undefined) === (wakeStream === undefined)) {
    throw missing('webhookUrl', 'Give either a webhookUrl or a wakeStream')
  }
}

const missing = (field: string, cure: string) =>
  new AiDbError('INVALID_OPTION', `${NAME}: ${field} is missing or one too many. ${cure}.`, {
    field,
  })

const otherSettings = (id: string) =>
  new AiDbError(
    'DUPLICATE_ID',
    `A subscription ${id} exists with other settings. Pass replace: true to put these in their place, or choose another id.`,
    { field: 'id' },
  )
