/** Durable background functions. Nothing runs them yet. */
import { sql } from 'drizzle-orm'
import {
  check,
  index,
  integer,
  jsonb,
  primaryKey,
  smallint,
  text,
  type PgSchema,
} from 'drizzle-orm/pg-core'
import type { CancelReason, FiberStatus } from '../contract/status.js'
import { instant, createdAt, updatedAt, rowId, metadata, oneOf, settledAgrees } from './columns.js'

/** Durable background functions. The table is here from the start; nothing runs them yet. */
export const fibersTable = <Name extends string>(schema: PgSchema<Name>) =>
  schema.table(
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
