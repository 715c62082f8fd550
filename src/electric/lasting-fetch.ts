/**
 * A `fetch` for shapes that never gives up, so that a collection is never deaf while it says 'ready'.
 *
 * Left to itself a shape stream ends for good on an answer of 4xx (its collection goes to 'error', or
 * stays 'ready' and hears nothing more), and its own retries cannot be woken. So every failure is
 * waited out here: passing ones (network, 5xx, 429) soon, refusals (401, 403, 404) slowly, both at once
 * when somebody says that it may pay (`ShapeHealth.pause`). Only 409, which tells the stream to
 * fetch anew, goes through.
 */
import type { AiDbError } from '../errors.js'
import { AiDbError as Failure } from '../errors.js'
import { delay, jittered } from '../internal/abort.js'
import { errorOfFailedFetch, errorOfResponse, isPassing } from '../internal/problem-error.js'

/** Who is told how the shapes do, and decides how long a pause lasts. */
export interface ShapeHealth {
  /** The server answered as it should. */
  reached(): void
  /** A request failed and will be made again. */
  failed(error: AiDbError): void
  /** Resolves after `ms`, earlier when a try may pay or the signal aborts; never rejects. */
  pause(ms: number, signal?: AbortSignal): Promise<void>
}

export const lonelyHealth: ShapeHealth = {
  reached: () => undefined,
  failed: () => undefined,
  pause: delay,
}

const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 10_000
const FIRST_REFUSED_PAUSE_MS = 2_000
const LONGEST_REFUSED_PAUSE_MS = 30_000

export function makeLastingFetch(request: typeof fetch, health: ShapeHealth): typeof fetch {
  return async (input, init) => {
    const signal = init?.signal ?? undefined
    for (let tries = 0; ; tries += 1) {
      const outcome = await tryOnce(request, input, init)
      if ('response' in outcome) {
        health.reached()
        return outcome.response
      }
      signal?.throwIfAborted()
      health.failed(outcome.error)
      await health.pause(pauseMs(tries, outcome), signal)
      signal?.throwIfAborted()
      if (await isBack(request, input, init)) health.reached()
    }
  }
}

/** A live request is answered when something happens; that the server is back is to be known before. */
async function isBack(
  request: typeof fetch,
  input: RequestInfo | URL,
  init: RequestInit | undefined,
): Promise<boolean> {
  const url = new URL(input instanceof Request ? input.url : input)
  if (url.searchParams.get('live') !== 'true') return false
  for (const name of LIVE_PARAMS) url.searchParams.delete(name)
  const outcome = await tryOnce(request, url, init)
  if ('response' in outcome) await outcome.response.body?.cancel().catch(() => undefined)
  return 'response' in outcome
}

const LIVE_PARAMS = ['live', 'live_sse', 'experimental_live_sse', 'cursor']

type Outcome =
  { response: Response } | { error: AiDbError; refused: boolean; retryAfterMs?: number }

async function tryOnce(
  request: typeof fetch,
  input: RequestInfo | URL,
  init: RequestInit | undefined,
): Promise<Outcome> {
  try {
    const response = await request(input, init)
    const { status, headers } = response
    if (status === 409 || (response.ok && headers.has('electric-handle'))) return { response }
    if (response.ok) return { error: await notAShape(response), refused: true }
    const seconds = Number(headers.get('retry-after') ?? Number.NaN)
    const error = await errorOfResponse(response)
    const wait = Number.isFinite(seconds) ? { retryAfterMs: Math.min(seconds, 60) * 1000 } : {}
    return { error, refused: !isPassing(status), ...wait }
  } catch (thrown) {
    return { error: errorOfFailedFetch(thrown), refused: false }
  }
}

/** A login page or an app's index.html with status 200: the stream would take it for its end. */
async function notAShape(response: Response): Promise<AiDbError> {
  await response.body?.cancel().catch(() => undefined)
  return new Failure(
    'SERVER_UNREACHABLE',
    'Something answered that is no sync server: the header electric-handle is missing. ' +
      'Check the url, and that a proxy or CORS setting does not take headers away.',
  )
}

function pauseMs(tries: number, outcome: Exclude<Outcome, { response: Response }>): number {
  const [first, longest] = outcome.refused
    ? [FIRST_REFUSED_PAUSE_MS, LONGEST_REFUSED_PAUSE_MS]
    : [FIRST_PAUSE_MS, LONGEST_PAUSE_MS]
  const backoff = jittered(Math.min(longest, first * 2 ** Math.min(tries, 10)))
  return Math.max(outcome.retryAfterMs ?? 0, backoff)
}
