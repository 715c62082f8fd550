/** Liveness. Never synced. */
import { sql } from 'drizzle-orm'
import {
  boolean,
  check,
  index,
  integer,
  primaryKey,
  text,
  type PgSchema,
} from 'drizzle-orm/pg-core'
import { instant, rowId } from './columns.js'

/** Who is alive. One lease row covers all that a worker holds; nothing here is ever synced to a client. */
export const workersTable = <Name extends string>(schema: PgSchema<Name>) =>
  schema.table(
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
