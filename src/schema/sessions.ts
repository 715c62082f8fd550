/** Conversations: sessions and what is said in them. */
import { sql } from 'drizzle-orm'
import {
  bigint,
  boolean,
  check,
  foreignKey,
  index,
  jsonb,
  primaryKey,
  smallint,
  text,
  uniqueIndex,
  type PgSchema,
} from 'drizzle-orm/pg-core'
import { createdAt, updatedAt, rowId, metadata, oneOf, idShape } from './columns.js'

/** How an assistant's message was put together, in order. A tool call is named; its row has the rest. */
export type MessagePart =
  { type: 'text'; step: number; text: string } | { type: 'tool-call'; step: number; id: string }

/** The longest message content the database takes, in bytes of UTF-8. */
export const MAX_CONTENT_BYTES = 1_048_576

/** A conversation: what messages, generations and tool calls hang on. */
export const sessionsTable = <Name extends string>(schema: PgSchema<Name>) =>
  schema.table(
    'sessions',
    {
      id: rowId(),
      title: text('title'),
      /** Whose it is: a user, a team, a tenant. What a list of sessions is filtered by; null is on nobody's list. */
      ownerId: text('owner_id'),
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
      idShape('sessions_owner_id_check', t.ownerId),
      index('sessions_created_at_idx').on(t.createdAt),
      index('sessions_owner_id_idx')
        .on(t.ownerId, t.createdAt)
        .where(sql`${t.ownerId} is not null`),
    ],
  )

/** What was said, by people and agents. An unprocessed message is work for `target_agent`. */
export const messagesTable = <Name extends string>(
  schema: PgSchema<Name>,
  sessions: ReturnType<typeof sessionsTable<Name>>,
) =>
  schema.table(
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
      /** Set when an edit or a retry took its place: kept as a record, no longer history nor inbox. */
      supersededBy: text('superseded_by'),
      metadata: metadata(),
      createdAt: createdAt(),
      /** When it was last taken in, superseded or sent again: a repeated send changes something, so its echo arrives. */
      updatedAt: updatedAt(),
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
      // Nobody's work any more, so it is out of every inbox and of the index that finds them.
      check('messages_superseded_check', sql`${t.supersededBy} is null or ${t.processed}`),
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
