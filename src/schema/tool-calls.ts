/** What generations ask for, and the consent some of it needs. */
import { sql } from 'drizzle-orm'
import {
  boolean,
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
import type { CancelReason, ToolCallStatus } from '../contract/status.js'
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
import type { generationsTable } from './generations.js'

const claimable = sql`status = 'pending' and not worker_only and (approvals_required = 0 or approved_at is not null)`

/** One call of one tool by one generation. The row an executor claims. */
export const toolCallsTable = <Name extends string>(
  schema: PgSchema<Name>,
  generations: ReturnType<typeof generationsTable<Name>>,
) =>
  schema.table(
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
      /** Only a worker of its agent may run it: it has the function there, or is a question to another agent. */
      workerOnly: boolean('worker_only').notNull().default(false),
      /** Approvals it needs before anybody may execute it. */
      approvalsRequired: smallint('approvals_required').notNull().default(0),
      /** When it had them all. Nobody may execute a call that needs approvals before. */
      approvedAt: instant('approved_at'),
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
      // What an executor may claim, and nothing that waits for people or for its own worker.
      index('tool_calls_claim_idx').on(t.priority.desc(), t.runAt, t.id).where(claimable),
      index('tool_calls_session_claim_idx')
        .on(t.sessionId, t.priority.desc(), t.runAt, t.id)
        .where(claimable),
      // Rows put off only, as of generations.
      index('tool_calls_run_at_idx')
        .on(t.runAt)
        .where(sql`status = 'pending' and run_at > created_at`),
      // The second condition keeps it to lookups by holder, as of generations.
      index('tool_calls_held_idx')
        .on(t.workerId)
        .where(sql`status = 'executing' and worker_id is not null`),
      index('tool_calls_expires_at_idx')
        .on(t.expiresAt)
        .where(sql`status = 'pending' and expires_at is not null`),
      index('tool_calls_session_id_idx').on(t.sessionId, t.createdAt),
    ],
  )

/** Append-only events about a tool call that needs people's consent. The database refuses updates. */
export const approvalsTable = <Name extends string>(
  schema: PgSchema<Name>,
  toolCalls: ReturnType<typeof toolCallsTable<Name>>,
) =>
  schema.table(
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
      // One vote an actor; about other arguments it is another question.
      uniqueIndex('approvals_vote_key')
        .on(t.toolCallId, t.actorId, t.argsHash)
        .where(sql`action in ('approved', 'denied')`),
      index('approvals_tool_call_id_idx').on(t.toolCallId, t.createdAt),
      index('approvals_session_id_idx').on(t.sessionId),
    ],
  )
