/**
 * Requests to the subscription routes of a Durable Streams server, and the one seam where its refusals get a code.
 *
 * A try that may have arrived (a timeout, a broken connection, a 5xx) is repeated a few times: heartbeats, acks and
 * PUTs may arrive twice. The end of a wake may not: its repetition is answered with FENCED, which after such a try
 * means that it landed, or that the wake is over in any case.
 */
import { AiDbError } from '../errors.js'
import { backoffMs, pause } from './backoff.js'

export interface SubscriptionRequest {
  method?: 'POST' | 'PUT' | 'DELETE'
  url: string
  body?: unknown
  token?: string
  headers?: Readonly<Record<string, string>> | undefined
  fetch?: typeof fetch | undefined
}

export interface SubscriptionAnswer {
  status: number
  body: Record<string, unknown>
  /** The server's word for a refusal. */
  code?: string
  /** An earlier try may have arrived as well. */
  repeated: boolean
}

const TRIES = 4
const ANSWER_WITHIN_MS = 5_000

/**
 * @returns any answer below 500, be it a refusal.
 * @throws AiDbError STREAM_FAILED when there is none after a few tries.
 */
export async function askSubscriptions(request: SubscriptionRequest): Promise<SubscriptionAnswer> {
  for (let tries = 1; ; tries += 1) {
    const outcome = await askOnce(request).catch((thrown: unknown) => String(thrown))
    if (typeof outcome !== 'string') return { ...outcome, repeated: tries > 1 }
    if (tries === TRIES) throw unreachable(request.url, outcome)
    await pause(backoffMs(tries, 50, 1_000))
  }
}

async function askOnce(
  request: SubscriptionRequest,
): Promise<Omit<SubscriptionAnswer, 'repeated'> | string> {
  const { method = 'POST', url, body, token } = request
  const response = await (request.fetch ?? fetch)(url, {
    method,
    headers: {
      ...request.headers,
      'content-type': 'application/json',
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
  })
  const text = await response.text()
  const { status } = response
  if (status >= 500 || status === 429 || status === 408) return `${status} ${text.slice(0, 200)}`
  const parsed = parseObject(text)
  const { code } = (parsed['error'] ?? {}) as { code?: unknown }
  return { status, body: parsed, ...(typeof code === 'string' ? { code } : {}) }
}

/** The error of an answer that is a refusal; undefined for a good one. */
export function refusalOf(what: string, answer: SubscriptionAnswer): AiDbError | undefined {
  const { status, code } = answer
  if (status < 400) return undefined
  const told = code ?? String(status)
  if (code === 'INVALID_OFFSET') {
    return new AiDbError(
      'CHECKPOINT_REGRESSED',
      `${what}: the stream server refused the offset (${told}): it lies before what was acked, beyond the stream's end, or the stream is not the subscription's. Ack offsets in the order they were read.`,
      { field: 'cursor' },
    )
  }
  if (status === 401 || status === 404 || code === 'FENCED') {
    return new AiDbError(
      'FENCED',
      `${what}: the wake is over (${told}): its lease ran out, its token expired, or the server lost its subscription. Drop this run.`,
    )
  }
  return new AiDbError(
    'STREAM_FAILED',
    `${what}: the stream server answered ${told}. Check its URL and the subscription's settings.`,
  )
}

function parseObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

const unreachable = (url: string, reason: string) =>
  new AiDbError(
    'STREAM_FAILED',
    `The stream server gave no usable answer at ${url} (${reason}). Check that it is up and reachable from here.`,
  )
