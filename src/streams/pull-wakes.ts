/** Claiming wakes instead of having them delivered, and hearing on the wake stream when there may be one. */
import { toError } from '../errors.js'
import { refusalOf, askSubscriptions } from './subscription-requests.js'
import { backoffMs, pause } from './backoff.js'
import { longPollPages } from './stream-pages.js'
import { streamBase, subscriptionUrl, type SubscriptionOptions } from './webhook-subscription.js'
import { streamsOf, type DurableStreamsWake } from './webhook-wake.js'

/** Nobody's turn: it is held, there is nothing to do, or the server does not know the subscription. */
export type NoWake = 'held' | 'idle' | 'lost'

/** @throws AiDbError STREAM_FAILED. */
export async function claimPullWake(
  subscription: SubscriptionOptions,
  worker: string,
): Promise<DurableStreamsWake | NoWake> {
  const { headers, fetch } = subscription
  const url = subscriptionUrl(subscription)
  const answer = await askSubscriptions({ url: `${url}/claim`, body: { worker }, headers, fetch })
  if (answer.code === 'ALREADY_CLAIMED') return 'held'
  if (answer.code === 'NO_PENDING_WORK') return 'idle'
  if (answer.status === 404) return 'lost'
  const refusal = refusalOf(`Claim of ${subscription.id}`, answer)
  if (refusal) throw refusal
  const { body } = answer
  return {
    subscriptionId: subscription.id,
    wakeId: String(body['wake_id']),
    generation: Number(body['generation']),
    streams: streamsOf(body),
    callbackUrl: `${url}/ack`,
    callbackToken: String(body['token']),
    releaseUrl: `${url}/release`,
  }
}

/**
 * Rings when the wake stream tells of this subscription, and after every reconnection, for what was told meanwhile.
 * Ends when the signal aborts; it never rejects.
 */
export async function hearWakes(
  subscription: SubscriptionOptions,
  ring: () => void,
  options: { signal: AbortSignal; onError?: ((error: Error) => void) | undefined },
): Promise<void> {
  const { signal, onError } = options
  const source = {
    url: `${streamBase(subscription.streamsUrl)}/${subscription.wakeStream}`,
    headers: subscription.headers ?? {},
    fetch: subscription.fetch ?? fetch,
  }
  for (let failures = 0; !signal.aborted; failures += 1) {
    try {
      let first = true
      for await (const page of longPollPages<{ subscription_id?: string }>(source, 'now', signal)) {
        failures = 0
        if (first || page.items.some((item) => item.subscription_id === subscription.id)) ring()
        first = false
      }
    } catch (thrown) {
      if (signal.aborted) return
      onError?.(toError(thrown))
      await pause(backoffMs(failures, 100, 5_000), signal)
    }
  }
}
