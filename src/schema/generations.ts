/** The row a worker claims. */
import { sql } from 'drizzle-orm'
import {
  check,
  foreignKey,
  index,
  integer,
  jsonb,
  primaryKey,
  smallint,
  text,
  uniqueIndex,
  type PgSchema,
} from 'drizzle-orm/pg-core'
import type { CancelReason, GenerationStatus, WaitReason } from '../contract/status.js'
import {
  instant,
  createdAt,
  updatedAt,
  rowId,
  metadata,
  oneOf,
  idShape,
  settledAgrees,
} from './columns.js'
import type { sessionsTable } from './sessions.js'

/** One run of an agent over its inbox. The row a worker claims. */
export const generationsTable = <Name extends string>(
  schema: PgSchema<Name>,
  sessions: ReturnType<typeof sessionsTable<Name>>,
) =>
  schema.table(
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
      // What is held is found by its holder only. Without the second condition the planner takes this index, small as
      // it is, for a row whose id is known, and reads everything that runs.
      index('generations_held_idx')
        .on(t.workerId)
        .where(sql`status = 'generating' and worker_id is not null`),
      index('generations_timer_idx')
        .on(t.runAt)
        .where(sql`status = 'waiting'`),
      index('generations_session_id_idx').on(t.sessionId, t.createdAt),
    ],
  )
