/**
 * The contract tables, as plain Drizzle tables.
 *
 * A host app re-exports this module from its own schema file and `drizzle-kit generate` picks the
 * tables up; or it calls `migrate()`. Guards, triggers and the publication live in `migrations/`,
 * because drizzle-kit cannot express them. What each status means and who moves it: docs/spec.md.
 *
 * Habits of these tables:
 * - every row is meaningful alone (a synced shape has no transaction boundaries);
 * - big columns stay out of rows that change often (Electric logs the whole old row on every update);
 * - every CHECK and index is named, so that the same DDL comes out of any drizzle-kit;
 * - timestamps are the database's clock, always.
 */
import { pgSchema } from 'drizzle-orm/pg-core'
import { sessionsTable, messagesTable } from './schema/sessions.js'
import { generationsTable } from './schema/generations.js'
import { toolCallsTable, approvalsTable } from './schema/tool-calls.js'
import { chunksTable } from './schema/chunks.js'
import { checkpointsTable, summariesTable } from './schema/memory.js'
import { fibersTable } from './schema/fibers.js'
import { workersTable } from './schema/workers.js'

export { MAX_CONTENT_BYTES, type MessagePart } from './schema/sessions.js'

/** The Postgres schema the tables live in unless a factory call says otherwise. */
export const DEFAULT_SCHEMA = 'ai_db'

/**
 * Builds the ten tables in a Postgres schema of the given name.
 *
 * @example
 * ```ts
 * export const { aiDbSchema, sessions, messages, generations } = createTables('assistant')
 * ```
 */
export function createTables<const Name extends string>(schemaName: Name) {
  const aiDbSchema = pgSchema(schemaName)
  const sessions = sessionsTable(aiDbSchema)
  const messages = messagesTable(aiDbSchema, sessions)
  const generations = generationsTable(aiDbSchema, sessions)
  const toolCalls = toolCallsTable(aiDbSchema, generations)
  return {
    aiDbSchema,
    sessions,
    messages,
    generations,
    toolCalls,
    chunks: chunksTable(aiDbSchema, generations),
    approvals: approvalsTable(aiDbSchema, toolCalls),
    checkpoints: checkpointsTable(aiDbSchema),
    summaries: summariesTable(aiDbSchema, sessions),
    fibers: fibersTable(aiDbSchema),
    workers: workersTable(aiDbSchema),
  }
}

export const {
  aiDbSchema,
  sessions,
  messages,
  generations,
  toolCalls,
  chunks,
  approvals,
  checkpoints,
  summaries,
  fibers,
  workers,
} = createTables(DEFAULT_SCHEMA)

export type Session = typeof sessions.$inferSelect
export type Message = typeof messages.$inferSelect
export type Generation = typeof generations.$inferSelect
export type ToolCall = typeof toolCalls.$inferSelect
export type Chunk = typeof chunks.$inferSelect
export type Approval = typeof approvals.$inferSelect
export type Checkpoint = typeof checkpoints.$inferSelect
export type Summary = typeof summaries.$inferSelect
export type Fiber = typeof fibers.$inferSelect
export type Worker = typeof workers.$inferSelect
