/**
 * Live text: a generation's durable stream, read through us. A reader needs no other connection, and learns no
 * address but ours; it may come late, resume at an offset, and go away, which ends the request behind.
 */
import { paths } from '../contract/requests.js'
import { AiDbError } from '../errors.js'
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

export const streamRoute = defineRoute({
  method: 'GET',
  path: paths.stream,
  parts: ['sessionId', 'generationId'],
  action: ({ path }) => ({ verb: 'read', ...path }),
  async run({ host, request, query, path }) {
    await requireGeneration(host, path)
    if (!host.streams) throw noStreamServer()
    const answer = await forward({
      service: SERVICE,
      url: streamUrl(host.streams.url, host.schema, path.generationId, query),
      headers: {
        ...pickHeaders(request.headers, ['accept', 'if-none-match']),
        ...host.streams.headers,
      },
      signal: request.signal,
      fetch: host.fetch,
    })
    return passedBack(answer)
  },
})

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
  throw new UpstreamError(SERVICE, `answered ${status}.`)
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
