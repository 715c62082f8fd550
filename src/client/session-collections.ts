/**
 * The six collections of a session. All but `chunks` are synced from the start; chunk rows are live text,
 * wanted only where there is no stream server, and begin to sync with their first reader.
 */
import { createCollection, type Collection } from '@tanstack/db'
import type { ElectricCollectionUtils } from '@tanstack/electric-db-collection'
import type {
  ApprovalRecord,
  ChunkRecord,
  GenerationRecord,
  MessageRecord,
  SessionRecord,
  ShapeName,
  ToolCallRecord,
} from '../contract/records.js'
import {
  approvalsCollectionOptions,
  chunksCollectionOptions,
  generationsCollectionOptions,
  messagesCollectionOptions,
  sessionCollectionOptions,
  toolCallsCollectionOptions,
  type HandlerShapeOptions,
  type RecordCollectionConfig,
} from '../electric/collections.js'
import type { Connection } from './connection.js'
import { makeShapeFetch, type LivePolls } from './live-polls.js'

/** A synced collection; its rows are changed by a session's verbs, not by `insert` and `update`. */
export type RecordCollection<Record extends object> = Collection<
  Record,
  string,
  ElectricCollectionUtils
>

export interface SessionCollections {
  /** One row. */
  readonly session: RecordCollection<SessionRecord>
  readonly messages: RecordCollection<MessageRecord>
  readonly generations: RecordCollection<GenerationRecord>
  readonly toolCalls: RecordCollection<ToolCallRecord>
  readonly chunks: RecordCollection<ChunkRecord>
  readonly approvals: RecordCollection<ApprovalRecord>
}

export interface CollectionSource {
  /** Absolute, of the handler. */
  url: string
  sessionId: string
  live: 'long-poll' | 'sse'
  fetch: typeof fetch
  polls: LivePolls
}

let opened = 0

export function createSessionCollections(
  { url, sessionId, live, fetch: request, polls }: CollectionSource,
  connection: Connection,
): SessionCollections {
  // TanStack DB knows rows by collection id and key: two sessions of one page must not share them.
  opened += 1
  const create = <Record extends object>(
    shape: ShapeName,
    options: (options: HandlerShapeOptions) => RecordCollectionConfig<Record>,
  ) =>
    createRecordCollection(
      options({
        url,
        sessionId,
        live,
        fetch: makeShapeFetch(request, polls, { sessionId, shape }),
        id: `${shape}:${sessionId}:${opened}`,
        health: connection.healthOf(shape),
      }),
    )
  return {
    session: create('sessions', sessionCollectionOptions),
    messages: create('messages', messagesCollectionOptions),
    generations: create('generations', generationsCollectionOptions),
    toolCalls: create('tool-calls', toolCallsCollectionOptions),
    chunks: create('chunks', chunksCollectionOptions),
    approvals: create('approvals', approvalsCollectionOptions),
  }
}

export function createRecordCollection<Record extends object>(
  options: RecordCollectionConfig<Record>,
): RecordCollection<Record> {
  return createCollection(options as never) as unknown as RecordCollection<Record>
}
