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
import { sql, type SQL } from 'drizzle-orm'
import {
  bigint,
  boolean,
  check,
  foreignKey,
  index,
  integer,
  jsonb,
  pgSchema,
  primaryKey,
  smallint,
  text,
  timestamp,
  unique,
  uniqueIndex,
  type AnyPgColumn,
} from 'drizzle-orm/pg-core'
import type {
  CancelReason,
  FiberStatus,
  GenerationStatus,
  ToolCallStatus,
  WaitReason,
} from './contract/status.js'

/** The Postgres schema the tables live in unless a factory call says otherwise. */
export const DEFAULT_SCHEMA = 'ai_db'

/** The longest message content the database takes, in bytes of UTF-8. */
export const MAX_CONTENT_BYTES = 1_048_576

const instant = (name: string) => timestamp(name, { withTimezone: true, mode: 'string' })
const createdAt = () => instant('created_at').notNull().defaultNow()
const updatedAt = () => instant('updated_at').notNull().defaultNow()
const rowId = () =>
  text('id')
    .notNull()
    .default(sql`gen_random_uuid()::text`)
const metadata = () =>
  jsonb('metadata')
    .$type<Record<string, unknown>>()
    .notNull()
    .default(sql`'{}'::jsonb`)

/** `column in ('a', 'b')` as a named CHECK; null passes, as CHECKs do. */
const oneOf = (name: string, column: AnyPgColumn, words: readonly string[]) =>
  check(name, sql`${column} in (${sql.raw(words.map((word) => `'${word}'`).join(', '))})`)

const idShape = (name: string, column: AnyPgColumn) =>
  check(name, sql`char_length(${column}) between 1 and 200`)

const settledAgrees = (
  name: string,
  status: AnyPgColumn,
  completedAt: AnyPgColumn,
): ReturnType<typeof check> => check(name, settledIff(status, completedAt))

const settledIff = (status: AnyPgColumn, completedAt: AnyPgColumn): SQL =>
  sql`(${status} in ('completed', 'failed', 'cancelled')) = (${completedAt} is not null)`

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

  /** A conversation: what messages, generations and tool calls hang on. */
  const sessions = aiDbSchema.table(
    'sessions',
    {
      id: rowId(),
      title: text('title'),
      /** Work of sessions with the same key shares the worker's `concurrencyPerKey` limit (a tenant, say). */
      concurrencyKey: text('concurrency_key'),
      /** Given to the session's generations; higher is claimed first. */
      priority: smallint('priority').notNull().default(0),
      metadata: metadata(),
      createdAt: createdAt(),
      updatedAt: updatedAt(),
    },
    (t) => [
      primaryKey({ name: 'sessions_pkey', columns: [t.id] }),
      idShape('sessions_id_check', t.id),
      index('sessions_created_at_idx').on(t.createdAt),
    ],
  )

  /** What was said, by people and agents. An unprocessed message is work for `target_agent`. */
  const messages = aiDbSchema.table(
    'messages',
    {
      id: rowId(),
      sessionId: text('session_id').notNull(),
      /** Insertion order. Unique, not gapless; two open transactions may commit out of its order. */
      seq: bigint('seq', { mode: 'number' }).notNull().generatedAlwaysAsIdentity({
        name: 'messages_seq_seq',
      }),
      role: text('role').$type<'user' | 'assistant' | 'system'>().notNull(),
      /** Who wrote it: a user's id or an agent's name. */
      actorId: text('actor_id').notNull(),
      /** Whom it is for: an agent's name, or a person's id in a reply. */
      targetAgent: text('target_agent').notNull(),
      content: text('content').notNull(),
      /** The order of text and tool calls in an assistant's message: `MessagePart[]`. */
      parts: jsonb('parts').$type<MessagePart[]>(),
      /** Has its target taken it in? False is what makes the enqueue trigger ask for a generation. */
      processed: boolean('processed').notNull().default(false),
      /** The generation that took it in; what it was answered by. */
      processedBy: text('processed_by'),
      /** The generation that wrote it; null for people's messages. */
      generationId: text('generation_id'),
      /** Correlates an agent's question ... */
      requestId: text('request_id'),
      /** ... with the reply that answers it. */
      inReplyTo: text('in_reply_to'),
      metadata: metadata(),
      createdAt: createdAt(),
    },
    (t) => [
      primaryKey({ name: 'messages_pkey', columns: [t.id] }),
      foreignKey({
        name: 'messages_session_id_fkey',
        columns: [t.sessionId],
        foreignColumns: [sessions.id],
      }).onDelete('cascade'),
      idShape('messages_id_check', t.id),
      oneOf('messages_role_check', t.role, ['user', 'assistant', 'system']),
      check(
        'messages_content_check',
        sql`octet_length(${t.content}) <= ${sql.raw(String(MAX_CONTENT_BYTES))} and (${t.role} = 'assistant' or ${t.content} ~ '\\S')`,
      ),
      idShape('messages_actor_id_check', t.actorId),
      idShape('messages_target_agent_check', t.targetAgent),
      uniqueIndex('messages_session_id_seq_idx').on(t.sessionId, t.seq),
      index('messages_inbox_idx')
        .on(t.sessionId, t.targetAgent, t.seq)
        .where(sql`not ${t.processed}`),
      index('messages_generation_id_idx')
        .on(t.generationId)
        .where(sql`${t.generationId} is not null`),
    ],
  )

  /** One run of an agent over its inbox. The row a worker claims. */
  const generations = aiDbSchema.table(
    'generations',
    {
      id: rowId(),
      sessionId: text('session_id').notNull(),
      agentName: text('agent_name').notNull(),
      status: text('status').$type<GenerationStatus>().notNull().default('pending'),
      /** Set exactly when cancelled. */
      cancelReason: text('cancel_reason').$type<CancelReason>(),
      /** Set exactly while waiting. */
      waitReason: text('wait_reason').$type<WaitReason>(),
      /** Why it failed, for people. */
      error: text('error'),
      /** Higher is claimed first. */
      priority: smallint('priority').notNull().default(0),
      /** Not claimed before. */
      runAt: instant('run_at').notNull().defaultNow(),
      concurrencyKey: text('concurrency_key'),
      /** Which of its key's slots a running generation holds; unique, so the limit cannot be passed. */
      concurrencySlot: smallint('concurrency_slot'),
      /** The fence: every write of a run carries it, every claim adds one. */
      attempt: integer('attempt').notNull().default(0),
      /** Claims since the last persisted step; `max_attempts` bounds these, not `attempt`. */
      attemptsWithoutProgress: integer('attempts_without_progress').notNull().default(0),
      maxAttempts: integer('max_attempts').notNull().default(5),
      /** The holder while generating, the last holder afterwards. */
      workerId: text('worker_id'),
      /** The message ids this generation answers; fixed by its first claim. */
      inbox: jsonb('inbox')
        .$type<string[]>()
        .notNull()
        .default(sql`'[]'::jsonb`),
      /** The model turn it is at, from 0; lower steps are persisted. */
      step: integer('step').notNull().default(0),
      model: text('model'),
      /** The provider's id of the newest response, to fetch it again instead of paying twice. */
      providerResponseId: text('provider_response_id'),
      finishReason: text('finish_reason'),
      inputTokens: integer('input_tokens').notNull().default(0),
      outputTokens: integer('output_tokens').notNull().default(0),
      metadata: metadata(),
      createdAt: createdAt(),
      updatedAt: updatedAt(),
      /** First claim. */
      startedAt: instant('started_at'),
      completedAt: instant('completed_at'),
    },
    (t) => [
      primaryKey({ name: 'generations_pkey', columns: [t.id] }),
      foreignKey({
        name: 'generations_session_id_fkey',
        columns: [t.sessionId],
        foreignColumns: [sessions.id],
      }).onDelete('cascade'),
      idShape('generations_id_check', t.id),
      idShape('generations_agent_name_check', t.agentName),
      oneOf('generations_status_check', t.status, [
        'pending',
        'generating',
        'waiting',
        'completed',
        'failed',
        'cancelled',
      ]),
      oneOf('generations_cancel_reason_check', t.cancelReason, [
        'by-user',
        'by-timeout',
        'by-error',
      ]),
      check(
        'generations_cancelled_check',
        sql`(${t.status} = 'cancelled') = (${t.cancelReason} is not null)`,
      ),
      oneOf('generations_wait_reason_check', t.waitReason, ['tools', 'approval', 'timer']),
      check(
        'generations_waiting_check',
        sql`(${t.status} = 'waiting') = (${t.waitReason} is not null)`,
      ),
      check('generations_failed_check', sql`${t.status} <> 'failed' or ${t.error} is not null`),
      settledAgrees('generations_completed_at_check', t.status, t.completedAt),
      check(
        'generations_held_check',
        sql`${t.status} <> 'generating' or (${t.workerId} is not null and ${t.attempt} > 0)`,
      ),
      check(
        'generations_attempt_check',
        sql`${t.attempt} >= 0 and ${t.attemptsWithoutProgress} between 0 and ${t.attempt} and ${t.maxAttempts} > 0`,
      ),
      check(
        'generations_usage_check',
        sql`${t.step} >= 0 and ${t.inputTokens} >= 0 and ${t.outputTokens} >= 0`,
      ),
      // Decision 7: one queued and one active generation per (session, agent). A generation that was
      // begun and is pending again (recovered, or its tools settled) is active, not queued.
      uniqueIndex('generations_queued_key')
        .on(t.sessionId, t.agentName)
        .where(sql`status = 'pending' and attempt = 0`),
      uniqueIndex('generations_active_key')
        .on(t.sessionId, t.agentName)
        .where(sql`status in ('pending', 'generating', 'waiting') and attempt > 0`),
      uniqueIndex('generations_concurrency_slot_key')
        .on(t.concurrencyKey, t.concurrencySlot)
        .where(sql`status = 'generating' and concurrency_slot is not null`),
      index('generations_claim_idx')
        .on(t.priority.desc(), t.runAt, t.id)
        .where(sql`status = 'pending'`),
      // Rows put off only: over all pending ones it would look good enough for the claim, which would then
      // read and sort the whole backlog for one row.
      index('generations_run_at_idx')
        .on(t.runAt)
        .where(sql`status = 'pending' and run_at > created_at`),
      index('generations_held_idx')
        .on(t.workerId)
        .where(sql`status = 'generating'`),
      index('generations_timer_idx')
        .on(t.runAt)
        .where(sql`status = 'waiting'`),
      index('generations_session_id_idx').on(t.sessionId, t.createdAt),
    ],
  )

  /** One call of one tool by one generation. The row an executor claims. */
  const toolCalls = aiDbSchema.table(
    'tool_calls',
    {
      /** The provider's call id, or that plus a suffix where a provider repeats its ids. Idempotency key of the tool. */
      id: rowId(),
      generationId: text('generation_id').notNull(),
      sessionId: text('session_id').notNull(),
      /** The model turn that asked for it. */
      step: integer('step').notNull(),
      /** Its place among the calls of that turn. */
      index: integer('index').notNull(),
      /** The id as the provider gave it; what the model is answered with. */
      providerCallId: text('provider_call_id').notNull(),
      name: text('name').notNull(),
      args: jsonb('args').$type<unknown>().notNull(),
      /**
       * sha256 of the arguments as Postgres writes them; an approval is bound to it. Kept by a trigger: a
       * generated column would make every update fail under full replica identity.
       */
      argsHash: text('args_hash').notNull().default(''),
      status: text('status').$type<ToolCallStatus>().notNull().default('pending'),
      cancelReason: text('cancel_reason').$type<CancelReason>(),
      result: jsonb('result').$type<unknown>(),
      error: text('error'),
      priority: smallint('priority').notNull().default(0),
      runAt: instant('run_at').notNull().defaultNow(),
      /** Still pending then: failed, as nobody ran it in time. */
      expiresAt: instant('expires_at'),
      /** How long one execution may take, in ms. */
      timeoutMs: integer('timeout_ms'),
      /** Approvals it needs before anybody may execute it. */
      approvalsRequired: smallint('approvals_required').notNull().default(0),
      attempt: integer('attempt').notNull().default(0),
      maxAttempts: integer('max_attempts').notNull().default(5),
      workerId: text('worker_id'),
      metadata: metadata(),
      createdAt: createdAt(),
      updatedAt: updatedAt(),
      startedAt: instant('started_at'),
      completedAt: instant('completed_at'),
    },
    (t) => [
      primaryKey({ name: 'tool_calls_pkey', columns: [t.id] }),
      foreignKey({
        name: 'tool_calls_generation_id_fkey',
        columns: [t.generationId],
        foreignColumns: [generations.id],
      }).onDelete('cascade'),
      check('tool_calls_id_check', sql`char_length(${t.id}) between 1 and 400`),
      idShape('tool_calls_name_check', t.name),
      oneOf('tool_calls_status_check', t.status, [
        'pending',
        'executing',
        'completed',
        'failed',
        'cancelled',
      ]),
      oneOf('tool_calls_cancel_reason_check', t.cancelReason, [
        'by-user',
        'by-timeout',
        'by-error',
      ]),
      check(
        'tool_calls_cancelled_check',
        sql`(${t.status} = 'cancelled') = (${t.cancelReason} is not null)`,
      ),
      check('tool_calls_failed_check', sql`${t.status} <> 'failed' or ${t.error} is not null`),
      settledAgrees('tool_calls_completed_at_check', t.status, t.completedAt),
      check(
        'tool_calls_held_check',
        sql`${t.status} <> 'executing' or (${t.workerId} is not null and ${t.attempt} > 0)`,
      ),
      check(
        'tool_calls_attempt_check',
        sql`${t.attempt} >= 0 and ${t.maxAttempts} > 0 and ${t.approvalsRequired} >= 0`,
      ),
      uniqueIndex('tool_calls_generation_id_step_idx').on(t.generationId, t.step, t.index),
      index('tool_calls_claim_idx')
        .on(t.priority.desc(), t.runAt, t.id)
        .where(sql`status = 'pending'`),
      // Rows put off only, as of generations.
      index('tool_calls_run_at_idx')
        .on(t.runAt)
        .where(sql`status = 'pending' and run_at > created_at`),
      index('tool_calls_held_idx')
        .on(t.workerId)
        .where(sql`status = 'executing'`),
      index('tool_calls_expires_at_idx')
        .on(t.expiresAt)
        .where(sql`status = 'pending' and expires_at is not null`),
      index('tool_calls_session_id_idx').on(t.sessionId, t.createdAt),
    ],
  )

  /** Text of a generation that is not a message yet: whole steps, and packed live text where there is no stream server. */
  const chunks = aiDbSchema.table(
    'chunks',
    {
      id: rowId(),
      generationId: text('generation_id').notNull(),
      sessionId: text('session_id').notNull(),
      /** Order within the generation, over all attempts. */
      index: integer('index').notNull(),
      /** The attempt that wrote it: what a reader needs to see one coherent text. */
      attempt: integer('attempt').notNull(),
      step: integer('step').notNull(),
      /** A transcript item's type: 'text', 'thinking', 'attempt', 'tool-call-start', ... */
      type: text('type').notNull(),
      content: text('content').notNull(),
      isFinal: boolean('is_final').notNull().default(false),
      createdAt: createdAt(),
    },
    (t) => [
      primaryKey({ name: 'chunks_pkey', columns: [t.id] }),
      foreignKey({
        name: 'chunks_generation_id_fkey',
        columns: [t.generationId],
        foreignColumns: [generations.id],
      }).onDelete('cascade'),
      uniqueIndex('chunks_generation_id_index_key').on(t.generationId, t.index),
      index('chunks_session_id_idx').on(t.sessionId),
      check('chunks_order_check', sql`${t.index} >= 0 and ${t.step} >= 0 and ${t.attempt} > 0`),
    ],
  )

  /** Append-only events about a tool call that needs people's consent. The database refuses updates. */
  const approvals = aiDbSchema.table(
    'approvals',
    {
      id: rowId(),
      toolCallId: text('tool_call_id').notNull(),
      sessionId: text('session_id').notNull(),
      action: text('action').$type<'requested' | 'approved' | 'denied' | 'expired'>().notNull(),
      actorId: text('actor_id').notNull(),
      /** The hash of the arguments the actor saw. */
      argsHash: text('args_hash').notNull(),
      reason: text('reason'),
      createdAt: createdAt(),
    },
    (t) => [
      primaryKey({ name: 'approvals_pkey', columns: [t.id] }),
      foreignKey({
        name: 'approvals_tool_call_id_fkey',
        columns: [t.toolCallId],
        foreignColumns: [toolCalls.id],
      }).onDelete('cascade'),
      oneOf('approvals_action_check', t.action, ['requested', 'approved', 'denied', 'expired']),
      idShape('approvals_actor_id_check', t.actorId),
      index('approvals_tool_call_id_idx').on(t.toolCallId, t.createdAt),
      index('approvals_session_id_idx').on(t.sessionId),
    ],
  )

  /** How far a runner has read each of its sources; monotonic per source. */
  const checkpoints = aiDbSchema.table(
    'checkpoints',
    {
      id: rowId(),
      runnerId: text('runner_id').notNull(),
      source: text('source').notNull(),
      cursor: text('cursor').notNull(),
      attempt: integer('attempt').notNull().default(0),
      updatedAt: updatedAt(),
    },
    (t) => [
      primaryKey({ name: 'checkpoints_pkey', columns: [t.id] }),
      unique('checkpoints_runner_id_source_key').on(t.runnerId, t.source),
    ],
  )

  /** What an agent remembers of messages that no longer fit its window. */
  const summaries = aiDbSchema.table(
    'summaries',
    {
      id: rowId(),
      sessionId: text('session_id').notNull(),
      agentName: text('agent_name').notNull(),
      content: text('content').notNull(),
      /** `seq` of the last message summarised: the same cut for every reader. */
      coveringUpTo: bigint('covering_up_to', { mode: 'number' }).notNull(),
      createdAt: createdAt(),
    },
    (t) => [
      primaryKey({ name: 'summaries_pkey', columns: [t.id] }),
      foreignKey({
        name: 'summaries_session_id_fkey',
        columns: [t.sessionId],
        foreignColumns: [sessions.id],
      }).onDelete('cascade'),
      uniqueIndex('summaries_session_id_agent_name_key').on(
        t.sessionId,
        t.agentName,
        t.coveringUpTo,
      ),
    ],
  )

  /** Durable background functions. The table is here from the start; nothing runs them yet. */
  const fibers = aiDbSchema.table(
    'fibers',
    {
      id: rowId(),
      name: text('name').notNull(),
      args: jsonb('args').$type<unknown>(),
      /** What the function stashed last: where it goes on after a crash. */
      snapshot: jsonb('snapshot').$type<unknown>(),
      status: text('status').$type<FiberStatus>().notNull().default('pending'),
      cancelReason: text('cancel_reason').$type<CancelReason>(),
      result: jsonb('result').$type<unknown>(),
      error: text('error'),
      priority: smallint('priority').notNull().default(0),
      runAt: instant('run_at').notNull().defaultNow(),
      concurrencyKey: text('concurrency_key'),
      attempt: integer('attempt').notNull().default(0),
      attemptsWithoutProgress: integer('attempts_without_progress').notNull().default(0),
      maxAttempts: integer('max_attempts').notNull().default(5),
      workerId: text('worker_id'),
      metadata: metadata(),
      createdAt: createdAt(),
      updatedAt: updatedAt(),
      startedAt: instant('started_at'),
      completedAt: instant('completed_at'),
    },
    (t) => [
      primaryKey({ name: 'fibers_pkey', columns: [t.id] }),
      oneOf('fibers_status_check', t.status, [
        'pending',
        'executing',
        'completed',
        'failed',
        'cancelled',
      ]),
      check(
        'fibers_cancelled_check',
        sql`(${t.status} = 'cancelled') = (${t.cancelReason} is not null)`,
      ),
      settledAgrees('fibers_completed_at_check', t.status, t.completedAt),
      check(
        'fibers_held_check',
        sql`${t.status} <> 'executing' or (${t.workerId} is not null and ${t.attempt} > 0)`,
      ),
      index('fibers_claim_idx')
        .on(t.priority.desc(), t.runAt, t.id)
        .where(sql`status = 'pending'`),
      index('fibers_held_idx')
        .on(t.workerId)
        .where(sql`status = 'executing'`),
    ],
  )

  /** Who is alive. One lease row covers all that a worker holds; nothing here is ever synced to a client. */
  const workers = aiDbSchema.table(
    'workers',
    {
      id: rowId(),
      /** Where it runs, for people: `host:pid`. */
      name: text('name').notNull(),
      /** The agents whose generations it claims. */
      agents: text('agents')
        .array()
        .notNull()
        .default(sql`'{}'::text[]`),
      /** The tools whose calls it claims. */
      tools: text('tools')
        .array()
        .notNull()
        .default(sql`'{}'::text[]`),
      slots: integer('slots').notNull(),
      /** Would a NOTIFY find it waiting? Enqueueing transactions ring only if somebody sleeps. */
      sleeping: boolean('sleeping').notNull().default(false),
      /** Does a session-level advisory lock stand for its life? False behind a transaction pooler. */
      locked: boolean('locked').notNull().default(false),
      leaseExpiresAt: instant('lease_expires_at').notNull(),
      startedAt: instant('started_at').notNull().defaultNow(),
      version: text('version').notNull(),
    },
    (t) => [
      primaryKey({ name: 'workers_pkey', columns: [t.id] }),
      check('workers_slots_check', sql`${t.slots} > 0`),
      index('workers_lease_expires_at_idx').on(t.leaseExpiresAt),
    ],
  )

  return {
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
  }
}

/** How an assistant's message was put together, in order. A tool call is named; its row has the rest. */
export type MessagePart =
  { type: 'text'; step: number; text: string } | { type: 'tool-call'; step: number; id: string }

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
