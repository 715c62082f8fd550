/**
 * The wake of a Durable Streams subscription, as a webhook delivers it or a claim returns it, in one form.
 *
 * Two payloads are understood: the one servers send today (`subscription_id`, `generation`, `callback_url`,
 * `callback_token`, streams with `acked_offset` and `tail_offset`), and the RFC's (`consumer_id`, `epoch`, `callback`,
 * `token`, streams with `offset`).
 */
import { AiDbError } from '../errors.js'

export interface DurableStreamsWake {
  /** The runner's id as well: one works for a subscription at a time. */
  subscriptionId: string
  wakeId: string
  /** The fence: each wake of a subscription has a higher one, until its server restarts. */
  generation: number
  streams: WakeStream[]
  /** Where heartbeats, acks and the end go. Null for a recheck, which no server knows of. */
  callbackUrl: string | null
  callbackToken: string
  /** Gives the wake back at once; a claimed wake has it, a delivered one does not. */
  releaseUrl?: string
  /** The RFC's payload came in: its words go out as well. */
  dialect?: 'rfc'
}

export interface WakeStream {
  /** Below `/v1/stream/`; the source of its checkpoints. */
  path: string
  /** Up to here the server believes it processed; `-1` before the beginning. */
  ackedOffset: string
  /** Its end when the wake was made; null when the payload does not say. */
  tailOffset: string | null
  hasPending: boolean
}

/** @throws AiDbError INVALID_INPUT, naming the field. */
export function parseDurableStreamsWake(body: unknown): DurableStreamsWake {
  const given = record(body, 'body')
  const isRfc = given['subscription_id'] === undefined && given['consumer_id'] !== undefined
  return isRfc
    ? {
        subscriptionId: text(given, 'consumer_id'),
        wakeId: text(given, 'wake_id'),
        generation: whole(given, 'epoch'),
        streams: streamsOf(given),
        callbackUrl: httpUrl(given, 'callback'),
        callbackToken: text(given, 'token'),
        dialect: 'rfc',
      }
    : {
        subscriptionId: text(given, 'subscription_id'),
        wakeId: text(given, 'wake_id'),
        generation: whole(given, 'generation'),
        streams: streamsOf(given),
        callbackUrl: httpUrl(given, 'callback_url'),
        callbackToken: text(given, 'callback_token'),
      }
}

/** The streams of a wake or of a subscription. */
export function streamsOf(given: Record<string, unknown>): WakeStream[] {
  const streams = given['streams']
  if (!Array.isArray(streams)) throw malformed('streams', 'a list')
  return streams.map((one: unknown) => {
    const stream = record(one, 'streams')
    const acked = stream['acked_offset'] ?? stream['offset']
    const tail = stream['tail_offset']
    const tailOffset = typeof tail === 'string' ? tail : null
    return {
      path: text(stream, 'path').replace(/^\/?v1\/stream\/|^\/+/, ''),
      ackedOffset: typeof acked === 'string' ? acked : '-1',
      tailOffset,
      hasPending: stream['has_pending'] !== false,
    }
  })
}

function record(value: unknown, field: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null) return value as Record<string, unknown>
  throw malformed(field, 'an object')
}

function text(given: Record<string, unknown>, field: string): string {
  const value = given[field]
  if (typeof value === 'string' && value !== '') return value
  throw malformed(field, 'a text')
}

function whole(given: Record<string, unknown>, field: string): number {
  const value = given[field]
  if (typeof value === 'number' && Number.isSafeInteger(value)) return value
  throw malformed(field, 'a whole number')
}

function httpUrl(given: Record<string, unknown>, field: string): string {
  const value = text(given, field)
  if (/^https?:\/\//.test(value) && URL.canParse(value)) return value
  throw malformed(field, 'an http URL')
}

const malformed = (field: string, wanted: string) =>
  new AiDbError(
    'INVALID_INPUT',
    `The wake's ${field} is not ${wanted}. Point the subscription's webhook at this handler, and nothing else.`,
    { field },
  )
