/**
 * Reads a generation's live transcript, from any device, at any time: before its stream exists, in its
 * middle, after a reload, over a lost network or a stream server that restarted without its data.
 *
 * Every reader sees the same text once. What it yields are looks, not events: an update comes when one
 * can see a difference, and says what the text gained. It ends with the generation.
 *
 * Not promised: the whole text. If the stream server is gone for good, the end comes from the row
 * (`settled`), and so does the text.
 */
import { followLog } from './stream-log.js'
import { longPollPages, ssePages } from './stream-pages.js'
import { generationStreamUrl, type StreamAddress } from './stream-address.js'
import { watchSettled, type AskSettled } from './settled-watch.js'
import { TranscriptView, type TranscriptUpdate } from './transcript-view.js'
import { applyItem, applyItems, emptyTranscript } from './transcript.js'

export type { AskSettled } from './settled-watch.js'
export type { TranscriptUpdate } from './transcript-view.js'

export interface ReadTranscriptAtOptions {
  /** The stream itself: a stream server's, or what stands before one. */
  url: string
  /** Ends the iteration, without an error. */
  signal?: AbortSignal
  /** Long-polling gets through proxies that buffer responses. @default 'sse' */
  live?: 'sse' | 'long-poll'
  /** The generation's end as its row tells it; asked when the stream is missing or silent. */
  settled?: AskSettled
  /** So long a silence is let pass before `settled` is asked, in ms. @default 2000 */
  checkSettledMs?: number
  headers?: Readonly<Record<string, string>>
  fetch?: typeof fetch
}

export interface ReadTranscriptOptions
  extends Omit<ReadTranscriptAtOptions, 'url'>, StreamAddress {}

export function readTranscript(
  options: ReadTranscriptOptions,
): AsyncGenerator<TranscriptUpdate, void> {
  return readTranscriptAt({ ...options, url: generationStreamUrl(options) })
}

/** As `readTranscript`, for a stream that has another address: behind the handler, say. */
export async function* readTranscriptAt(
  options: ReadTranscriptAtOptions,
): AsyncGenerator<TranscriptUpdate, void> {
  const { signal, live = 'sse', settled, checkSettledMs = 2_000 } = options
  const stop = new AbortController()
  const abort = () => stop.abort()
  signal?.addEventListener('abort', abort)
  if (signal?.aborted) abort()
  const source = {
    url: options.url,
    headers: options.headers ?? {},
    fetch: options.fetch ?? fetch,
  }
  const log = followLog(live === 'sse' ? ssePages : longPollPages, source, stop.signal)
  try {
    yield* updates(watchSettled(log, settled, checkSettledMs), stop.signal)
  } finally {
    signal?.removeEventListener('abort', abort)
    abort()
    // Behind what the log is waiting for: when this is done, its connection is closed.
    await log.return()
  }
}

async function* updates(
  events: ReturnType<typeof watchSettled>,
  signal: AbortSignal,
): AsyncGenerator<TranscriptUpdate, void> {
  const view = new TranscriptView()
  let transcript = emptyTranscript
  for await (const event of events) {
    if (signal.aborted) return
    if (event.kind === 'gone') continue
    if (event.kind === 'settled') {
      const { ignoring: _, ...shown } = view.shown
      const update = view.show(applyItem(shown, event.done), [event.done])
      if (update) yield update
      return
    }
    const { page, fromStart } = event
    if (fromStart) view.forget()
    transcript = applyItems(fromStart ? emptyTranscript : transcript, page.items)
    const ended = page.closed || transcript.status !== 'streaming'
    // A log that is being written anew is shown when it has caught up with what was seen already.
    const behind = !page.upToDate || transcript.attempt < view.shown.attempt
    const update = ended || !behind ? view.show(transcript, page.items) : view.hold(page.items)
    if (update) yield update
    if (ended) return
  }
}
