/** Text that is not a message yet. */
import { sql } from 'drizzle-orm'
import {
  boolean,
  check,
  foreignKey,
  index,
  integer,
  primaryKey,
  text,
  uniqueIndex,
  type PgSchema,
} from 'drizzle-orm/pg-core'
import { createdAt, rowId } from './columns.js'
import type { generationsTable } from './generations.js'

/** Text of a generation that is not a message yet: whole steps, and packed live text where there is no stream server. */
export const chunksTable = <Name extends string>(
  schema: PgSchema<Name>,
  generations: ReturnType<typeof generationsTable<Name>>,
) =>
  schema.table(
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
