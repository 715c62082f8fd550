/**
 * Answers to `/v1/shape`, header by header as Electric gives them: the client refuses an answer that
 * lacks one, and browsers show it only those that are exposed.
 */
import type { ServerResponse } from 'node:http'
import type { LogEntry } from './shape-log.js'
import type { Shape } from './shape.js'
import { snapshotHeaders } from './snapshot-visibility.js'
import type { Snapshot } from './snapshot-visibility.js'

export const CORS_HEADERS = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers':
    'electric-cursor,electric-handle,electric-offset,electric-schema,electric-up-to-date,' +
    'electric-snapshot,electric-has-data,retry-after,etag',
  'access-control-allow-methods': 'GET, HEAD, POST, DELETE, OPTIONS',
}

export const CACHE = {
  snapshot: 'public, max-age=604800, s-maxage=3600, stale-while-revalidate=2629746',
  log: 'public, max-age=60, stale-while-revalidate=300',
  live: 'public, max-age=5, stale-while-revalidate=5',
  sse: 'public, max-age=59',
  none: 'no-store',
}

/** Of one answer; the rest of the log comes with the next request. */
const MAX_LOG_CHARS = 8_000_000

export interface LogPage {
  /** Each as JSON. */
  messages: string[]
  /** Where the next request goes on, if there were entries. */
  offset: string | undefined
  complete: boolean
}

export function pageOf(entries: readonly LogEntry[]): LogPage {
  let chars = 0
  let count = 0
  while (count < entries.length && (count === 0 || chars < MAX_LOG_CHARS)) {
    chars += entries[count]!.chars
    count += 1
  }
  const last = entries[count - 1]
  return {
    messages: entries.slice(0, count).flatMap((entry) => entry.messages),
    offset: last && offsetOf(last.lsn),
    complete: count === entries.length,
  }
}

/** A transaction is told whole, so its number says how far a reader is. */
export function offsetOf(lsn: bigint): string {
  return `${lsn}_0`
}

export function upToDate(tail: bigint): string {
  return JSON.stringify({ headers: { control: 'up-to-date', global_last_seen_lsn: `${tail}` } })
}

export function snapshotEnd(snapshot: Snapshot): string {
  return JSON.stringify({ headers: { control: 'snapshot-end', ...snapshotHeaders(snapshot) } })
}

export function shapeHeaders(shape: Shape, offset: string): Record<string, string> {
  const schema: Record<string, unknown> = {}
  for (const column of shape.view.table.columns) {
    if (shape.view.columns.includes(column.name)) schema[column.name] = column.header
  }
  return {
    'electric-handle': shape.handle,
    'electric-offset': offset,
    'electric-schema': asciiJson(schema),
  }
}

/** Differs from the one before, so that no cache answers the next poll with the last answer. */
export function nextCursor(cursor: string | undefined): string {
  const now = Date.now()
  return `${cursor === String(now) ? now + 1 : now}`
}

export function sendJson(
  response: ServerResponse,
  status: number,
  body: string,
  headers: Readonly<Record<string, string>>,
): void {
  if (response.writableEnded || response.destroyed) return
  const length = `${Buffer.byteLength(body)}`
  response.writeHead(status, {
    ...CORS_HEADERS,
    'content-type': 'application/json; charset=utf-8',
    'content-length': length,
    ...headers,
  })
  response.end(body)
}

/** A header holds no letters beyond ASCII; JSON can write them all with it. */
function asciiJson(value: unknown): string {
  return JSON.stringify(value).replaceAll(
    /[\u0080-\uffff]/g,
    (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
