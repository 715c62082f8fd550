/**
 * A request passed on to a service behind us (Electric, the stream server), and its answer passed back as it comes.
 *
 * What it sees to: only listed headers go either way; the answer's bytes are not held; whoever asked goes
 * away, the request behind ends, too; nothing about the service (address, secret, its words) is in an error.
 * It retries nothing: clients of both protocols do.
 */

export interface ForwardOptions {
  /** For people: 'Electric', 'The stream server'. */
  service: string
  url: URL
  method?: 'GET' | 'POST'
  headers?: Readonly<Record<string, string>>
  body?: string
  /** The client's: it aborts when the client goes away. */
  signal: AbortSignal
  fetch: typeof fetch
}

/** The service could not be reached, or broke off before it answered. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError'
  constructor(service: string, why: string) {
    super(`${service} ${why}`)
  }
}

/**
 * @returns its answer, whatever the status; the body ends the request behind when it is cancelled.
 * @throws UpstreamError, or the signal's reason when it has aborted.
 */
export async function forward(options: ForwardOptions): Promise<Response> {
  const { service, url, method = 'GET', headers = {}, body, signal } = options
  const ended = new AbortController()
  const end = () => ended.abort()
  signal.addEventListener('abort', end)
  if (signal.aborted) end()
  try {
    const response = await options.fetch(url, {
      method,
      headers: { 'accept-encoding': 'identity', ...headers },
      ...(body === undefined ? {} : { body }),
      signal: ended.signal,
      // A redirect would carry the secret to wherever it says.
      redirect: 'manual',
      cache: 'no-store',
    })
    const release = () => {
      signal.removeEventListener('abort', end)
      end()
    }
    return new Response(passing(response.body, service, signal, release), response)
  } catch (error) {
    signal.removeEventListener('abort', end)
    if (signal.aborted) throw error
    throw new UpstreamError(
      service,
      `could not be reached (${codeOf(error)}). Check its url, and that it is up.`,
    )
  }
}

/**
 * The body as it comes. It ends on its own when the client is gone, because the server under us would report that
 * as a failure; it breaks when the service breaks off, so that half an answer is not taken for a whole one.
 */
function passing(
  body: ReadableStream<Uint8Array> | null,
  service: string,
  signal: AbortSignal,
  release: () => void,
): ReadableStream<Uint8Array> | null {
  if (!body) {
    release()
    return null
  }
  const reader = body.getReader()
  // Not left to fetch: aborted while the last bytes arrive, Node's never settles the pending read.
  const cancel = () => void reader.cancel().catch(() => undefined)
  signal.addEventListener('abort', cancel)
  const finish = () => {
    signal.removeEventListener('abort', cancel)
    release()
  }
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read()
        if (!done) return controller.enqueue(value)
        finish()
        controller.close()
      } catch {
        finish()
        if (signal.aborted) controller.close()
        else
          controller.error(
            new UpstreamError(service, 'broke off in the middle of its answer. Look into its log.'),
          )
      }
    },
    cancel() {
      cancel()
      finish()
    },
  })
}

/** The system's word for what happened, which names no address. */
function codeOf(error: unknown): string {
  const { code } = ((error as { cause?: unknown }).cause ?? error) as { code?: unknown }
  return typeof code === 'string' ? code : 'the request failed'
}

/** The listed headers that are there. */
export function pickHeaders(headers: Headers, names: readonly string[]): Record<string, string> {
  const picked: Record<string, string> = {}
  for (const name of names) {
    const value = headers.get(name)
    if (value !== null) picked[name] = value
  }
  return picked
}

/**
 * Cache rules for an answer that is one person's: never in a shared cache, and not another's from a private one.
 */
export function privateCaching(cacheControl: string | null): Record<string, string> {
  const kept = (cacheControl ?? 'no-store')
    .split(',')
    .map((rule) => rule.trim())
    .filter((rule) => rule !== '' && !/^(public|private|s-maxage)\b/i.test(rule))
  const rules = kept.includes('no-store') ? kept : ['private', ...kept]
  return { 'cache-control': rules.join(', '), vary: 'authorization, cookie' }
}
