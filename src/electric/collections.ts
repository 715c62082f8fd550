/**
 * TanStack DB collections of the contract tables: `createCollection(messagesCollectionOptions({ url, sessionId }))`.
 *
 * Rows are the records of `src/contract/records.ts`: camel case, instants as `Date`, `seq` as a number.
 * Writes go through verbs, not through a collection: these options have no mutation handlers, and
 * `collection.utils.awaitTxId(txid)` tells when a verb's transaction has arrived.
 *
 * What differs from plain `electricCollectionOptions`: requests that fail are made again, for ever
 * (`lasting-fetch.ts`).
 */
import { snakeCamelMapper, type ShapeStreamOptions } from '@electric-sql/client'
import {
  electricCollectionOptions,
  type ElectricCollectionUtils,
} from '@tanstack/electric-db-collection'
import type { CollectionConfig } from '@tanstack/db'
import {
  records,
  type ApprovalRecord,
  type ChunkRecord,
  type GenerationRecord,
  type MessageRecord,
  type SessionRecord,
  type ShapeName,
  type ToolCallRecord,
} from '../contract/records.js'
import { paths } from '../contract/requests.js'
import { AiDbError, toError } from '../errors.js'
import { jittered } from '../internal/abort.js'
import { lonelyHealth, makeLastingFetch, type ShapeHealth } from './lasting-fetch.js'

export type { ShapeHealth } from './lasting-fetch.js'

interface CommonOptions {
  /** @default `<shape>:<url>` */
  id?: string
  /** Sent with every request; a function is asked each time. */
  headers?: ShapeStreamOptions['headers']
  /** @default the global one */
  fetch?: typeof fetch
  /** Server-sent events hold a connection each: only over HTTP/2. @default 'long-poll' */
  live?: 'long-poll' | 'sse'
  /** Told how requests fare. @default nobody */
  health?: ShapeHealth
}

export interface HandlerShapeOptions extends CommonOptions {
  /** Where the handler is mounted; relative to the page where there is one. */
  url: string | URL
  sessionId: string
}

/** Another proxy than our handler, or Electric itself: whoever gives the columns gives all of the record's. */
export interface OwnShapeOptions extends CommonOptions {
  shapeUrl: string | URL
  /** `table`, `where`, `columns`, … as the server at `shapeUrl` takes them. */
  params?: NonNullable<ShapeStreamOptions['params']>
}

export type ShapeCollectionOptions = HandlerShapeOptions | OwnShapeOptions
export type SessionsCollectionOptions = Omit<HandlerShapeOptions, 'sessionId'> | OwnShapeOptions

/** What `createCollection` of `@tanstack/db` takes. */
export type RecordCollectionConfig<Record extends object> = Omit<
  CollectionConfig<Record, string, never, ElectricCollectionUtils>,
  'utils'
> & { id: string; utils: ElectricCollectionUtils; schema?: never }

/** The sessions of the actor: the one shape outside of a session. */
export const sessionsCollectionOptions = (
  options: SessionsCollectionOptions,
): RecordCollectionConfig<SessionRecord> =>
  recordCollectionOptions('sessions', options, paths.sessionsShape())

/** The one row of a session. */
export const sessionCollectionOptions = shapeOfSession<SessionRecord>('sessions')
export const messagesCollectionOptions = shapeOfSession<MessageRecord>('messages')
export const generationsCollectionOptions = shapeOfSession<GenerationRecord>('generations')
export const toolCallsCollectionOptions = shapeOfSession<ToolCallRecord>('tool-calls')
export const chunksCollectionOptions = shapeOfSession<ChunkRecord>('chunks')
export const approvalsCollectionOptions = shapeOfSession<ApprovalRecord>('approvals')

function shapeOfSession<Record extends { id: string }>(shape: ShapeName) {
  return (options: ShapeCollectionOptions): RecordCollectionConfig<Record> =>
    recordCollectionOptions<Record>(
      shape,
      options,
      'sessionId' in options ? paths.shape(options.sessionId, shape) : '',
    )
}

function recordCollectionOptions<Record extends { id: string }>(
  shape: ShapeName,
  options: SessionsCollectionOptions,
  path: string,
): RecordCollectionConfig<Record> {
  const own = 'shapeUrl' in options
  const url = own ? absoluteUrl(options.shapeUrl) : absoluteUrl(options.url) + path
  return electricCollectionOptions({
    id: options.id ?? `${shape}:${url}`,
    schema: records[shape] as never,
    getKey: (row: { id: string }) => row.id,
    // What holds a collection decides when it ends; a page that looks away for five minutes does not.
    gcTime: 0,
    shapeOptions: shapeStreamOptions(url, options, own ? (options.params ?? {}) : {}),
  } as never) as unknown as RecordCollectionConfig<Record>
}

function shapeStreamOptions(
  url: string,
  options: CommonOptions,
  params: NonNullable<ShapeStreamOptions['params']>,
): ShapeStreamOptions<Date> {
  const health = options.health ?? lonelyHealth
  // Not passed as it is: a browser's fetch insists on being called without an owner.
  const request: typeof fetch = options.fetch ?? ((input, init) => fetch(input, init))
  return {
    url,
    params,
    ...(options.headers && { headers: options.headers }),
    liveSse: options.live === 'sse',
    columnMapper: snakeCamelMapper(),
    parser: {
      timestamptz: parseInstant,
      int8: (text: string) => Number(text) as never,
    },
    fetchClient: makeLastingFetch(request, health),
    // What comes through all the same (an answer that is no JSON, say): go on, never end.
    onError: async (error) => {
      health.failed(
        new AiDbError('SERVER_UNREACHABLE', `Sync failed: ${toError(error).message}`, {
          cause: error,
        }),
      )
      await health.pause(jittered(2_000))
      return {}
    },
  }
}

/** Postgres writes `2026-01-02 03:04:05.123+00`, which not every browser reads. */
export function parseInstant(text: string): Date {
  const iso = text.replace(' ', 'T').replace(/([+-]\d\d)$/, '$1:00')
  return new Date(iso)
}

/** Without a slash at its end; relative to the page where there is one. */
export function absoluteUrl(url: string | URL): string {
  const base = (globalThis as { location?: { href?: string } }).location?.href
  try {
    return new URL(url, base).toString().replace(/\/+$/, '')
  } catch {
    throw new AiDbError(
      'INVALID_OPTION',
      `url '${String(url)}' is relative, and there is no page it could be relative to. Give an absolute one.`,
      { field: 'url' },
    )
  }
}
