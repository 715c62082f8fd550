/**
 * Reads a run's log from a place, then what is written next, until the log is closed.
 *
 * A lost connection is taken up again; a server that lost the log is an error, as is one that stays away:
 * a viewer must never be left waiting for a run that nobody can show any more. How a run ended is the
 * host's knowledge: one that finished a turn may write on, so only the closing of the log ends it here.
 */
import { AiDbError } from '../errors.js'
import { logLost, parseOffset, unreadable, type RunLogItem, type RunLogPlace } from './run-log.js'
import { followLog, type LogEvent, type OpenPages } from './stream-log.js'
import { ssePages, STREAM_START, StreamGone, type PageSource } from './stream-pages.js'

export interface ReadLimits {
  /** How long reading from the start waits for the first chunk, in ms. */
  firstChunkMs: number
  /** How long a server may stay away, in ms. */
  giveUpMs: number
  /** Ends the reading, without an error. */
  signal?: AbortSignal
}

type Event<Chunk> = LogEvent<RunLogItem<Chunk>>

/** @param offset '-1': from the start, 'now': what comes, or a place that `formatOffset` named. */
export async function* followRunLog<Chunk>(
  source: PageSource,
  runId: string,
  offset: string,
  limits: ReadLimits,
): AsyncGenerator<RunLogItem<Chunk>, void> {
  const stop = new Stop(limits.signal)
  const from = offset === '-1' || offset === 'now' ? undefined : parseOffset(offset)
  const open = impatient<RunLogItem<Chunk>>(limits.giveUpMs, (error) => stop.because(error))
  const events = followLog(open, source, stop.signal, from?.at ?? STREAM_START)
  const silence = setTimeout(() => stop.because(silent(runId, limits)), limits.firstChunkMs)
  if (from) clearTimeout(silence)
  const position = new Position(runId, from)
  let skipping = offset === 'now'
  try {
    for await (const event of events) {
      const items = position.advance(event)
      if (items.length > 0 || closed(event)) clearTimeout(silence)
      if (!skipping) yield* items
      if (closed(event)) return
      if (event.kind === 'page' && event.page.upToDate) skipping = false
    }
    if (stop.error) throw stop.error
  } finally {
    clearTimeout(silence)
    stop.end()
    await events.return()
  }
}

/** How far the log was read, over as many connections as it takes. */
class Position {
  readonly #runId: string
  #last: RunLogPlace | undefined
  /** The last item has to be found again, before any other counts. */
  #lost: boolean

  constructor(runId: string, last: RunLogPlace | undefined) {
    this.#runId = runId
    this.#last = last
    this.#lost = last !== undefined
  }

  /** What of an event was not read before. */
  advance<Chunk>(event: Event<Chunk>): RunLogItem<Chunk>[] {
    if (event.kind === 'gone') {
      if (this.#last) throw logLost(this.#runId)
      return []
    }
    if (event.fromStart) this.#lost = this.#last !== undefined
    const items = event.page.items.filter((item) => this.#isNew(item))
    if (this.#lost && event.page.upToDate) throw logLost(this.#runId)
    return items
  }

  #isNew(item: RunLogPlace): boolean {
    const last = this.#last
    if (last && item.seq <= last.seq) {
      if (item.seq === last.seq && item.by !== last.by) throw logLost(this.#runId)
      this.#lost &&= item.seq !== last.seq
      return false
    }
    if (this.#lost) throw logLost(this.#runId)
    this.#last = { seq: item.seq, by: item.by, at: item.at }
    return true
  }
}

/** Ends the following: for the reader's reason, or for one found here. */
class Stop {
  readonly #abort = new AbortController()
  readonly #parent: AbortSignal | undefined
  readonly end = () => {
    this.#parent?.removeEventListener('abort', this.end)
    this.#abort.abort()
  }
  error: AiDbError | undefined

  constructor(parent: AbortSignal | undefined) {
    this.#parent = parent
    parent?.addEventListener('abort', this.end)
    if (parent?.aborted) this.end()
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  because(error: AiDbError): void {
    if (this.signal.aborted) return
    this.error = error
    this.end()
  }
}

/** Connections, and an end to them when none has come about for too long. */
function impatient<Item>(giveUpMs: number, giveUp: (error: AiDbError) => void): OpenPages<Item> {
  let failingSince: number | undefined
  return async function* (source, offset, signal) {
    try {
      for await (const page of ssePages<Item>(source, offset, signal)) {
        failingSince = undefined
        yield page
      }
    } catch (cause) {
      if (cause instanceof StreamGone || signal.aborted) throw cause
      failingSince ??= Date.now()
      if (Date.now() - failingSince > giveUpMs) giveUp(unreadable(cause))
      throw cause
    }
  }
}

function closed<Chunk>(event: Event<Chunk>): boolean {
  return event.kind === 'page' && event.page.closed
}

function silent(runId: string, { firstChunkMs }: ReadLimits): AiDbError {
  return new AiDbError(
    'NOT_FOUND',
    `Run ${JSON.stringify(runId)} has written nothing within ${firstChunkMs} ms: it is unknown, expired, ` +
      'or has not begun. Check its id, or give firstChunkMs more time.',
  )
}
