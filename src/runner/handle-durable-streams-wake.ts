/**
 * The webhook endpoint of a Durable Streams subscription, as a function from Request to Response.
 *
 * Verified, parsed, then run: within the request (`request-bound`), or behind the answer (`ack-immediate`). The
 * answer never says `done`: the server would ack by itself whatever wake it has out when the answer arrives, which may
 * be the next one already. A status of 2xx keeps the wake ours, 5xx has it delivered again within seconds.
 */
import type { RunnerSession, WebhookExecutionMode } from '../contract/lifecycle.js'
import { AiDbError, toError } from '../errors.js'
import { delay } from '../internal/abort.js'
import { refuseUnknownOptions } from '../internal/options.js'
import type { DurableStreamsWebhookAdapter, UnreadStream } from '../streams/webhook-adapter.js'
import { parseDurableStreamsWake, type DurableStreamsWake } from '../streams/webhook-wake.js'
import { runWake, type RunWake } from './run-wake.js'

export interface HandleDurableStreamsWakeOptions {
  request: Request
  /** One for the process: it knows the wakes at work. */
  adapter: DurableStreamsWebhookAdapter
  /** @default the adapter's */
  mode?: WebhookExecutionMode
  /**
   * The work. Returns when everything unread is done, or `{ done: false }` when there is more; unless it ended the
   * session itself.
   */
  run: RunWake
  /** Shutdown: aborts the sessions. */
  signal?: AbortSignal
  /** Keeps the process for work behind the answer, where the platform wants that. */
  waitUntil?: (work: Promise<unknown>) => void
  /** Told of work that failed. A wake that was refused or lost is no failure. */
  onError?: (error: Error) => void
}

const KNOWN = ['request', 'adapter', 'mode', 'run', 'signal', 'waitUntil', 'onError']
const MAX_BODY = 1_048_576
const MAX_REQUEST_MS = 25_000

export async function handleDurableStreamsWake(
  options: HandleDurableStreamsWakeOptions,
): Promise<Response> {
  refuseUnknownOptions('handleDurableStreamsWake()', options, KNOWN)
  const { adapter, mode = adapter.mode } = options
  let wake: DurableStreamsWake
  try {
    wake = await receive(options.request, adapter)
  } catch (thrown) {
    const error = toError(thrown)
    const status = statusOf(error)
    if (status >= 500) options.onError?.(error)
    return answer(status, { error: { code: codeOf(error) } })
  }
  if (mode.type === 'ack-immediate') {
    const work = runWake(wake, { ...options, signal: options.signal }).catch((thrown: unknown) =>
      options.onError?.(toError(thrown)),
    )
    options.waitUntil?.(work)
    return answer(mode.status ?? 202, { accepted: true })
  }
  return runWithinRequest(wake, options, mode.maxRequestMs ?? MAX_REQUEST_MS)
}

async function receive(request: Request, adapter: DurableStreamsWebhookAdapter) {
  if (request.method !== 'POST')
    throw new AiDbError('INVALID_INPUT', 'POST a wake.', { field: 'method' })
  const body = await readBody(request)
  const { url, method, headers } = request
  await adapter.verifySignature(new Request(url, { method, headers, body }))
  return parseDurableStreamsWake(parseJson(body))
}

async function runWithinRequest(
  wake: DurableStreamsWake,
  options: HandleDurableStreamsWakeOptions,
  maxRequestMs: number,
): Promise<Response> {
  const budget = new AbortController()
  const stop = () => budget.abort(options.signal?.reason)
  options.signal?.addEventListener('abort', stop, { once: true })
  if (options.signal?.aborted) stop()
  const finished = new AbortController()
  const work = runWake(wake, { ...options, signal: budget.signal })
    .then(
      () => answer(200, { accepted: true }),
      (thrown: unknown) => {
        options.onError?.(toError(thrown))
        return answer(503, { error: { code: codeOf(toError(thrown)) } })
      },
    )
    .finally(() => {
      options.signal?.removeEventListener('abort', stop)
      finished.abort()
    })
  const spent = delay(maxRequestMs, finished.signal).then(() => {
    if (finished.signal.aborted) return work
    budget.abort(outOfTime(maxRequestMs))
    return answer(202, { accepted: true })
  })
  options.waitUntil?.(work)
  return Promise.race([work, spent])
}

async function readBody(request: Request): Promise<string> {
  const length = Number(request.headers.get('content-length') ?? 0)
  if (length > MAX_BODY) throw tooLarge()
  const reader = request.body?.getReader()
  if (!reader) return ''
  const decoder = new TextDecoder()
  let text = ''
  for (let size = 0; ;) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    size += value.byteLength
    if (size > MAX_BODY) {
      await reader.cancel()
      throw tooLarge()
    }
    text += decoder.decode(value, { stream: true })
  }
}

function parseJson(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch (thrown) {
    throw new AiDbError('INVALID_INPUT', 'The body is not JSON. Send a wake.', {
      field: 'body',
      cause: thrown,
    })
  }
}

const tooLarge = () => new AiDbError('TOO_LARGE', 'A wake has at most 1 MiB.', { field: 'body' })

const outOfTime = (ms: number) =>
  new AiDbError(
    'TIMEOUT',
    `The request's ${ms} ms are over. Record what is done, and end with done: false.`,
  )

const codeOf = (error: Error) => (error instanceof AiDbError ? error.code : 'INTERNAL')

const statuses: Partial<Record<string, number>> = {
  INVALID_INPUT: 400,
  UNAUTHENTICATED: 401,
  TOO_LARGE: 413,
  UPSTREAM_FAILED: 503,
}

/** Whatever else a `verifySignature` of the host throws is its no. */
const statusOf = (error: Error) => statuses[codeOf(error)] ?? 401

const answer = (status: number, body: unknown) =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } })

export type { RunnerSession, UnreadStream }
