/**
 * A stream as one log, over as many connections as it takes.
 *
 * The hazard here is a server that lost its data: the log was written anew, by the worker from memory,
 * and an offset of the old log points anywhere into the new one. So an offset is used again only when
 * the server hung up in peace and is there at the next try, with a log no shorter. After anything else
 * the log is read from its start; the reader compares and shows what is new.
 */
import { backoffMs, pause } from './backoff.js'
import { STREAM_START, StreamGone, type PageSource, type StreamPage } from './stream-pages.js'
import type { TranscriptItem } from './transcript-items.js'

export type LogEvent<Item = TranscriptItem> =
  /** `fromStart`: what was read before does not count any more. */
  | { kind: 'page'; page: StreamPage<Item>; fromStart: boolean }
  /** There is no stream (yet, or any more). Told once until there is one. */
  | { kind: 'gone' }

export type OpenPages<Item = TranscriptItem> = (
  source: PageSource,
  offset: string,
  signal: AbortSignal,
) => AsyncGenerator<StreamPage<Item>, void>

const FIRST_BACKOFF_MS = 20
const LONGEST_BACKOFF_MS = 500
/** Servers speak every 30 s on an idle connection; one that is silent for longer is dead. */
const DEAD_AFTER_MS = 60_000

/** Begins at `from`. Ends when `signal` aborts, and only then; it never throws. */
export async function* followLog<Item = TranscriptItem>(
  open: OpenPages<Item>,
  source: PageSource,
  signal: AbortSignal,
  from = STREAM_START,
): AsyncGenerator<LogEvent<Item>, void> {
  let offset = from
  let tries = 0
  let toldGone = false
  while (!signal.aborted) {
    const connection = new Connection(signal)
    let fromStart = offset === STREAM_START
    try {
      for await (const page of open(source, offset, connection.signal)) {
        connection.alive()
        if (!fromStart && page.offset < offset) throw new Error('The log is shorter than it was.')
        offset = page.offset
        tries = 0
        toldGone = false
        yield { kind: 'page', page, fromStart }
        fromStart = false
      }
    } catch (error) {
      offset = STREAM_START
      if (error instanceof StreamGone && !toldGone) {
        toldGone = true
        yield { kind: 'gone' }
      }
    } finally {
      connection.end()
    }
    await pause(backoffMs(tries, FIRST_BACKOFF_MS, LONGEST_BACKOFF_MS), signal)
    tries += 1
  }
}

/** The signal one connection lives by: its reader's, or its own when the server has gone silent. */
class Connection {
  readonly #abort = new AbortController()
  readonly #parent: AbortSignal
  readonly end = () => {
    clearTimeout(this.#timer)
    this.#parent.removeEventListener('abort', this.end)
    this.#abort.abort()
  }
  #timer = setTimeout(this.end, DEAD_AFTER_MS)

  constructor(parent: AbortSignal) {
    this.#parent = parent
    parent.addEventListener('abort', this.end)
    if (parent.aborted) this.end()
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  alive(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(this.end, DEAD_AFTER_MS)
  }
}
