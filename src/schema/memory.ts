/** How far something has been read, and what was kept of it. Nothing writes summaries yet. */
import { sql } from 'drizzle-orm'
import {
  bigint,
  check,
  foreignKey,
  integer,
  primaryKey,
  text,
  unique,
  uniqueIndex,
  type PgSchema,
} from 'drizzle-orm/pg-core'
import { createdAt, instant, updatedAt, rowId } from './columns.js'
import type { sessionsTable } from './sessions.js'

/**
 * How far a runner has read each of its sources; monotonic per source. The row of the empty source is the runner's
 * own: its lease.
 */
export const checkpointsTable = <Name extends string>(schema: PgSchema<Name>) =>
  schema.table(
    'checkpoints',
    {
      id: rowId(),
      runnerId: text('runner_id').notNull(),
      source: text('source').notNull(),
      /** Of a source: up to where it is done. Of the runner: the wake it took last, empty when that is to be done again. */
      cursor: text('cursor').notNull(),
      /** The claim that wrote it. In the runner's own row: the fence, raised by each claim. */
      attempt: integer('attempt').notNull().default(0),
      /** In the runner's own row only: till when it is held; null when nobody holds it. */
      leaseExpiresAt: instant('lease_expires_at'),
      updatedAt: updatedAt(),
    },
    (t) => [
      primaryKey({ name: 'checkpoints_pkey', columns: [t.id] }),
      unique('checkpoints_runner_id_source_key').on(t.runnerId, t.source),
      check('checkpoints_lease_check', sql`${t.leaseExpiresAt} is null or ${t.source} = ''`),
    ],
  )

/** What an agent remembers of messages that no longer fit its window. */
export const summariesTable = <Name extends string>(
  schema: PgSchema<Name>,
  sessions: ReturnType<typeof sessionsTable<Name>>,
) =>
  schema.table(
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
