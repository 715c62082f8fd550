/**
 * The log of one TanStack AI run, as it lies in a durable stream, and the names of places in it.
 *
 * Each item is one AG-UI chunk with its number. An offset names an item: its number, who wrote it, and
 * where in the stream the batch it came with begins, so that a reader need not begin at the start. The
 * number orders; the writer's name tells a log that was lost and written anew from the one it stands for.
 */
import { AiDbError } from '../errors.js'
import { DEFAULT_STREAM_PREFIX } from './stream-address.js'
import { longPollPages, STREAM_START, StreamGone, type PageSource } from './stream-pages.js'

export interface RunLogItem<Chunk> {
  /** Counts from 1, over every producer of the run. */
  readonly seq: number
  /** The producer that wrote it: a name of its own for every one. */
  readonly by: string
  /** The stream's offset before the batch it is in. */
  readonly at: string
  readonly chunk: Chunk
}

/** Everything of an item but its chunk: what an offset carries. */
export type RunLogPlace = Omit<RunLogItem<unknown>, 'chunk'>

export interface RunLogAddress {
  /** Base URL of the stream server, without `/v1/stream`. */
  streamsUrl: string | URL
  /** Sets streams of several installations apart. @default 'ai_db' */
  prefix?: string
}

export function runLogUrl({ streamsUrl, prefix }: RunLogAddress, runId: string): string {
  const path = `${encodeURIComponent(prefix ?? DEFAULT_STREAM_PREFIX)}/runs/${encodeURIComponent(runId)}`
  return `${String(streamsUrl).replace(/\/+$/, '')}/v1/stream/${path}`
}

const OFFSET = /^run1:([^:]+):(\d{1,15}):([\w-]{1,64}):([\w-]{1,100})$/

export function formatOffset(runId: string, { seq, by, at }: RunLogPlace): string {
  return `run1:${encodeURIComponent(runId)}:${seq}:${by}:${at}`
}

/** @throws INVALID_INPUT for anything that `formatOffset` did not write. */
export function parseOffset(offset: string): RunLogPlace & { runId: string } {
  const [, run, seq, by, at] = OFFSET.exec(offset) ?? []
  try {
    if (at !== undefined) return { runId: decodeURIComponent(run!), seq: Number(seq), by: by!, at }
  } catch {
    // Not an encoded run id: the same as any other malformed offset.
  }
  throw new AiDbError(
    'INVALID_INPUT',
    `${JSON.stringify(offset.slice(0, 200))} is no offset of a run's log. ` +
      "Send the id of the last event back as it came, or '-1' to read from the start.",
    { field: 'offset' },
  )
}

/** What the log holds now, without waiting; nothing for a run that is not known. */
export async function readRunLog<Chunk>(source: PageSource): Promise<RunLogItem<Chunk>[]> {
  const items: RunLogItem<Chunk>[] = []
  const stop = new AbortController()
  try {
    for await (const page of longPollPages<RunLogItem<Chunk>>(source, STREAM_START, stop.signal)) {
      items.push(...page.items)
      if (page.upToDate) break
    }
  } catch (cause) {
    if (cause instanceof StreamGone) return []
    throw unreadable(cause)
  } finally {
    stop.abort()
  }
  return items
}

export function unreadable(cause: unknown): AiDbError {
  return new AiDbError(
    'STREAM_FAILED',
    `The stream server could not be read: ${String(cause)}. Check that it runs, its URL, and the headers.`,
    { cause },
  )
}

export function logLost(runId: string): AiDbError {
  return new AiDbError(
    'STREAM_FAILED',
    `The log of run ${JSON.stringify(runId)} is gone: the stream server lost it, or it expired. ` +
      'Load the messages from where they are kept, and start a new run.',
  )
}
