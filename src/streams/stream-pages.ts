/**
 * One connection to a stream, as pages of items: by server-sent events, or by long-polling where a
 * proxy buffers those. A page ends where the server names an offset; the connection ends by returning
 * (the server hung up), by `StreamGone`, or by any other error.
 */
import type { TranscriptItem } from './transcript-items.js'

export interface StreamPage<Item = TranscriptItem> {
  readonly items: readonly Item[]
  /** Where the next page begins. */
  readonly offset: string
  /** Nothing lay behind it when it was sent. */
  readonly upToDate: boolean
  /** Nothing will follow. */
  readonly closed: boolean
}

/** The server has no such stream: not yet, or no longer. */
export class StreamGone extends Error {}

export interface PageSource {
  url: string
  headers: Readonly<Record<string, string>>
  fetch: typeof fetch
}

/** Offset before the first item. */
export const STREAM_START = '-1'

export async function* ssePages<Item = TranscriptItem>(
  source: PageSource,
  offset: string,
  signal: AbortSignal,
): AsyncGenerator<StreamPage<Item>, void> {
  const response = await get(source, { offset, live: 'sse' }, signal)
  if (!response.body) throw new Error('The stream server answered without a body.')
  let items: Item[] = []
  for await (const event of sseEvents(response.body, signal)) {
    if (event.name === 'data') items.push(...(JSON.parse(event.data) as Item[]))
    if (event.name !== 'control') continue
    const control = JSON.parse(event.data) as SseControl
    yield {
      items,
      offset: control.streamNextOffset,
      upToDate: control.upToDate === true || control.streamClosed === true,
      closed: control.streamClosed === true,
    }
    items = []
  }
}

interface SseControl {
  streamNextOffset: string
  upToDate?: boolean
  streamClosed?: boolean
}

export async function* longPollPages<Item = TranscriptItem>(
  source: PageSource,
  offset: string,
  signal: AbortSignal,
): AsyncGenerator<StreamPage<Item>, void> {
  let cursor: string | null = null
  // The first answer must not wait: a reader at the end of the log has to learn that it is there.
  let live: string | undefined
  for (;;) {
    const query: Record<string, string> = { offset }
    if (live) query['live'] = live
    if (cursor) query['cursor'] = cursor
    const response = await get(source, query, signal)
    const { status, headers } = response
    const items = status === 204 ? [] : ((await response.json()) as Item[])
    offset = headers.get('Stream-Next-Offset') ?? offset
    cursor = headers.get('Stream-Cursor')
    const upToDate = headers.has('Stream-Up-To-Date')
    const closed = headers.get('Stream-Closed') === 'true'
    yield { items, offset, upToDate: upToDate || closed, closed }
    live = upToDate ? 'long-poll' : undefined
  }
}

async function get(
  source: PageSource,
  query: Record<string, string>,
  signal: AbortSignal,
): Promise<Response> {
  const url = `${source.url}?${new URLSearchParams(query).toString()}`
  const response = await source.fetch(url, { headers: source.headers, signal })
  if (response.ok) return response
  const text = await response.text()
  if (response.status === 404 || response.status === 410) throw new StreamGone(text)
  throw new Error(`The stream server answered ${response.status} ${text.slice(0, 200)}`)
}

interface SseEvent {
  name: string
  data: string
}

/** The subset of server-sent events that Durable Streams servers send: `event` and `data` lines. */
async function* sseEvents(
  body: ReadableStream<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<SseEvent, void> {
  const reader = body.getReader()
  // Not left to fetch: aborted while the last bytes arrive, Node's never settles the pending read.
  const cancel = () => void reader.cancel().catch(() => {})
  signal.addEventListener('abort', cancel)
  const decoder = new TextDecoder()
  let rest = ''
  let event: SseEvent = { name: 'message', data: '' }
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const lines = (rest + decoder.decode(value, { stream: true })).split(/\r\n|\n/)
      rest = lines.pop() ?? ''
      for (const line of lines) {
        if (line === '') {
          yield event
          event = { name: 'message', data: '' }
        } else event = withField(event, line)
      }
    }
  } finally {
    signal.removeEventListener('abort', cancel)
    cancel()
  }
}

function withField(event: SseEvent, line: string): SseEvent {
  const [, field, value] = /^(event|data): ?(.*)$/s.exec(line) ?? []
  if (value === undefined) return event
  if (field === 'event') return { ...event, name: value }
  return { ...event, data: event.data === '' ? value : `${event.data}\n${value}` }
}
