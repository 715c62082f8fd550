/** Requests to the handler: where it is mounted, what goes with each of them, and what an answer means. */
import type { AiDbError } from '../errors.js'
import { errorOfFailedFetch, errorOfResponse, isPassing } from '../internal/problem-error.js'

export interface HandlerAddress {
  /** Absolute, without a slash at its end. */
  url: string
  headers?: HeadersOption | undefined
  fetch?: typeof fetch | undefined
}

/** A function is asked for each request: a token may be another by then. */
export type HeadersOption =
  | Readonly<Record<string, string>>
  | (() => Record<string, string> | Promise<Record<string, string>>)

/** `fetch` with the session's headers. */
export function makeHandlerFetch({ headers, fetch: own }: HandlerAddress): typeof fetch {
  // Not passed as it is: a browser's fetch insists on being called without an owner.
  const request: typeof fetch = own ?? ((input, init) => fetch(input, init))
  if (headers === undefined) return request
  return async (input, init) => {
    const all = new Headers(init?.headers)
    const extra = typeof headers === 'function' ? await headers() : headers
    for (const [name, value] of Object.entries(extra)) all.set(name, value)
    return request(input, { ...init, headers: all })
  }
}

export interface WriteRequest {
  method: 'POST' | 'PATCH' | 'DELETE'
  path: string
  body?: object
}

export type WriteAnswer =
  | { kind: 'written'; body: Record<string, unknown> & { txid: number } }
  /** Nothing is known, or the server is busy: the same request again will tell. */
  | { kind: 'passing'; error: AiDbError; retryAfterMs: number }
  | { kind: 'refused'; error: AiDbError }

/** A server that has not answered by then is asked again; the write's id makes that safe. */
const ANSWER_WITHIN_MS = 30_000

export async function askToWrite(
  address: { url: string; fetch: typeof fetch },
  { method, path, body }: WriteRequest,
  signal: AbortSignal,
): Promise<WriteAnswer> {
  const patience = new AbortController()
  const giveUp = () => patience.abort()
  const timer = setTimeout(giveUp, ANSWER_WITHIN_MS)
  signal.addEventListener('abort', giveUp)
  try {
    const response = await address.fetch(address.url + path, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
      signal: patience.signal,
    })
    if (!response.ok) return await refusal(response)
    return { kind: 'written', body: (await response.json()) as { txid: number } }
  } catch (thrown) {
    return { kind: 'passing', error: errorOfFailedFetch(thrown), retryAfterMs: 0 }
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', giveUp)
  }
}

async function refusal(response: Response): Promise<WriteAnswer> {
  const error = await errorOfResponse(response)
  // Who must log in anew loses nothing that was written meanwhile: it waits, and refresh() sends it.
  const mustLogIn = response.status === 401
  if (!mustLogIn && !isPassing(response.status)) return { kind: 'refused', error }
  const seconds = Number(response.headers.get('retry-after') ?? 0)
  const retryAfterMs = Number.isFinite(seconds) ? Math.min(seconds, 60) * 1000 : 0
  return { kind: 'passing', error, retryAfterMs }
}
