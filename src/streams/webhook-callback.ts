/** The callback of a wake: heartbeat, acks, end. Its body in today's words, and in the RFC's for wakes that came so. */
import { askSubscriptions, refusalOf } from './subscription-requests.js'
import type { Ack } from './wake-acks.js'
import type { DurableStreamsWake } from './webhook-wake.js'

/** What a callback says. Nothing: a heartbeat. */
export interface WakeNews {
  acks?: Ack[]
  done?: boolean
}

/**
 * Sends a body to the wake's callback.
 *
 * @returns the token for the next callback, if the server changes it.
 * @throws AiDbError FENCED when the wake is over, CHECKPOINT_REGRESSED for an offset it refuses, STREAM_FAILED.
 */
export type PostCallback = (
  wake: DurableStreamsWake,
  body: unknown,
  token: string,
) => Promise<{ token?: string } | void>

export function callbackBody(wake: DurableStreamsWake, news: WakeNews): Record<string, unknown> {
  const isRfc = wake.dialect === 'rfc'
  const acks = news.acks?.map((ack) => (isRfc ? { path: ack.stream, ...ack } : ack))
  return {
    wake_id: wake.wakeId,
    generation: wake.generation,
    ...(isRfc ? { epoch: wake.generation } : {}),
    ...(acks ? { acks } : {}),
    ...(news.done ? { done: true } : {}),
  }
}

export function postWakeCallback(options: {
  headers?: Readonly<Record<string, string>>
  fetch?: typeof fetch
}): PostCallback {
  return async (wake, body, token) => {
    const { headers, fetch } = options
    const answer = await askSubscriptions({ url: wake.callbackUrl!, body, token, headers, fetch })
    const refusal = refusalOf(`Wake ${wake.wakeId}`, answer)
    const isEnd = (body as WakeNews).done === true
    if (refusal?.code === 'FENCED' && isEnd && answer.repeated) return {}
    if (refusal) throw refusal
    const { token: next } = answer.body
    return typeof next === 'string' ? { token: next } : {}
  }
}
