/**
 * Live text: a generation's durable stream, read through us. A reader needs no other connection, and learns no
 * address but ours; it may come late, resume at an offset, and go away, which ends the request behind.
 */
import { paths } from '../contract/requests.js'
import { isSettledGeneration } from '../contract/status.js'
import { AiDbError } from '../errors.js'
import { delay } from '../internal/abort.js'
import { forward, pickHeaders, privateCaching, UpstreamError } from '../internal/forward.js'
import { generationStreamUrl } from '../streams/stream-address.js'
import { requireGeneration } from './generations.js'
import { defineRoute } from './route.js'

/** The answer's headers a reader of the protocol needs. */
export const streamHeaders = [
  ...['stream-next-offset', 'stream-cursor', 'stream-up-to-date', 'stream-closed'],
  ...['stream-sse-data-encoding', 'content-type', 'etag', 'retry-after'],
] as const

const streamParams = ['offset', 'live', 'cursor']

const SERVICE = 'The stream server'

/** How long a live reader waits for a stream that is not there yet, and how often that is looked for. */
const PATIENCE_MS = 20_000
const LOOK_AGAIN_MS = 50

export const streamRoute = defineRoute({
  method: 'GET',
  path: paths.stream,
  parts: ['sessionId', 'generationId'],
  action: ({ path }) => ({ verb: 'read', ...path }),
  async run({ host, request, query, path }) {
    const { streams } = host
    const { status } = await requireGeneration(host, path)
    if (!streams) throw noStreamServer()
    const ask = () =>
      forward({
        service: SERVICE,
        url: streamUrl(streams.url, host.schema, path.generationId, query),
        headers: {
          ...pickHeaders(request.headers, ['accept', 'if-none-match']),
          ...streams.headers,
        },
        signal: request.signal,
        fetch: host.fetch,
      })
    const mayCome = query.has('live') && !isSettledGeneration(status)
    return passedBack(mayCome ? await untilThere(ask, request.signal) : await ask())
  },
})

/**
 * A reader is often here before the worker's first words are. It asked to be told when they come, so it waits
 * here; a 404 it would repeat, and a browser prints each one as an error.
 */
async function untilThere(ask: () => Promise<Response>, signal: AbortSignal): Promise<Response> {
  const until = performance.now() + PATIENCE_MS
  for (;;) {
    const answer = await ask()
    if (answer.status !== 404 || performance.now() > until) return answer
    await answer.body?.cancel()
    await delay(LOOK_AGAIN_MS, signal)
    signal.throwIfAborted()
  }
}

function streamUrl(
  base: string | URL,
  prefix: string,
  generationId: string,
  query: URLSearchParams,
) {
  const url = new URL(generationStreamUrl({ streamsUrl: base, prefix, generationId }))
  for (const name of streamParams) {
    const value = query.get(name)
    if (value !== null) url.searchParams.set(name, value)
  }
  return url
}

function passedBack(answer: Response): Response {
  const { status, headers } = answer
  if (answer.ok || status === 304) {
    return new Response(answer.body, {
      status,
      headers: {
        ...pickHeaders(headers, streamHeaders),
        ...privateCaching(headers.get('cache-control')),
      },
    })
  }
  void answer.body?.cancel()
  if (status === 404 || status === 410) throw noStream()
  if (status === 400) {
    throw new AiDbError('INVALID_INPUT', 'The offset is none of this stream. Begin at -1.', {
      field: 'offset',
    })
  }
  throw new UpstreamError(SERVICE, `answered ${status}. Check its headers option and its log.`)
}

const noStream = () =>
  new AiDbError(
    'STREAM_FAILED',
    'This generation has no stream now. Try again while it runs, or read its chunks and message.',
  )

/** The field tells a reader that asking again is useless. */
const noStreamServer = () =>
  new AiDbError(
    'STREAM_FAILED',
    'There is no stream server here. Read the chunks and the message instead.',
    { field: 'streams' },
  )
