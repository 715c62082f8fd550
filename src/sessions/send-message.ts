/**
 * Send: a message row, and by the trigger messages_enqueue its generation, in one statement. Inside the
 * host's own transaction both commit with whatever else the host writes, or not at all.
 */
import { AiDbError } from '../errors.js'
import { toQueryable, type DatabaseOptions, type DrizzleDatabase } from '../internal/database.js'
import { nearest } from '../internal/options.js'
import { statement } from '../internal/statement.js'
import { MAX_CONTENT_BYTES } from '../schema.js'
import { requireContent, requireId, requireJson } from './input.js'

export interface NewMessage {
  sessionId: string
  content: string
  /** The agent it is for. @default 'assistant' */
  targetAgent?: string
  /** Who says it. @default 'user' */
  actorId?: string
  /** A client's own id makes a retried send no second message; see `onDuplicate`. @default a random UUID */
  id?: string
  /**
   * What a message with this id means: an error (DUPLICATE_ID), or, when session, actor and content are the same, a
   * repeat of the same send, which touches the row and succeeds.
   * @default 'refuse'
   */
  onDuplicate?: 'refuse' | 'touch'
  /** @default 'user' */
  role?: 'user' | 'system'
  /** Correlates the reply: it carries this as `inReplyTo`. */
  requestId?: string
  metadata?: Record<string, unknown>
  /**
   * Send although workers are up and none serves `targetAgent`: one that starts later will.
   * @default false
   */
  queueForUnknownAgent?: boolean
}

interface Sent {
  id: string | null
  repeated: boolean | null
  txid: string
  /** The agents that are served, when the one asked for is not. */
  serving: string[] | null
}

type Params = [
  id: string,
  sessionId: string,
  role: string,
  actorId: string,
  targetAgent: string,
  content: string,
  requestId: string | null,
  metadata: string,
  queue: boolean,
  touch: boolean,
]

// With no worker up at all nothing can be said about the agent's name, and the message is queued. What was sent
// before was allowed then. `xmax` is set where the row was there before; the enqueue trigger sees new rows only.
export const sendMessageStatement = statement<Params, Sent>(
  'send_message',
  (t) => `
  with serving as (
    select jsonb_agg(distinct agent) as names from ${t.workers} w, unnest(w.agents) agent
     where w.lease_expires_at > now()),
  allowed as (
    select $9::boolean or names is null or names ? $5::text
      or exists (select 1 from ${t.messages} where id = $1::text) as yes from serving),
  sent as (
    insert into ${t.messages} as m (id, session_id, role, actor_id, target_agent, content, request_id, metadata)
    select $1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text::jsonb from allowed where yes
    on conflict (id) do update set updated_at = now()
      where $10::boolean and m.session_id = excluded.session_id and m.actor_id = excluded.actor_id
        and m.content = excluded.content
    returning id, xmax <> 0 as repeated)
  select (select id from sent) as id, (select repeated from sent) as repeated,
    pg_current_xact_id()::xid::text as txid, case when not allowed.yes then names end as serving
  from serving, allowed`,
)

/**
 * Sends a message to an agent. When it has committed, a pending generation waits for a worker.
 *
 * @returns its id, whether it was there before, and the transaction's id, for `awaitTxId` of a synced collection.
 * @throws AiDbError INVALID_INPUT, UNKNOWN_SESSION, UNKNOWN_AGENT, DUPLICATE_ID, NOT_MIGRATED,
 *   PERMISSION_DENIED, DATABASE_UNREACHABLE. Nothing is written then.
 */
export async function sendMessage(
  db: DrizzleDatabase,
  message: NewMessage,
  options: DatabaseOptions = {},
): Promise<{ id: string; txid: number; repeated: boolean }> {
  const params = paramsOf(message)
  const [row] = await toQueryable(db, options).query(sendMessageStatement, params)
  const { id, repeated, txid, serving } = row!
  if (id !== null) return { id, txid: Number(txid), repeated: repeated === true }
  throw serving === null ? duplicate(params[0]) : unknownAgent(params[4], serving)
}

function paramsOf(message: NewMessage): Params {
  const id = message.id ?? crypto.randomUUID()
  const { actorId = 'user', targetAgent = 'assistant', role = 'user' } = message
  requireContent('content', message.content, MAX_CONTENT_BYTES)
  for (const [field, value] of Object.entries({
    id,
    sessionId: message.sessionId,
    actorId,
    targetAgent,
  })) {
    requireId(field, value)
  }
  if (message.requestId !== undefined) requireId('requestId', message.requestId)
  return [
    id,
    message.sessionId,
    role,
    actorId,
    targetAgent,
    message.content,
    message.requestId ?? null,
    requireJson('metadata', message.metadata ?? {}),
    message.queueForUnknownAgent ?? false,
    message.onDuplicate === 'touch',
  ]
}

const duplicate = (id: string) =>
  new AiDbError(
    'DUPLICATE_ID',
    `A message with the id ${id} exists already. Send a new id, or treat it as sent.`,
    { field: 'id' },
  )

function unknownAgent(name: string, serving: string[]): AiDbError {
  const near = nearest(name, serving)
  return new AiDbError(
    'UNKNOWN_AGENT',
    `No running worker serves the agent '${name}'${near ? `; did you mean '${near}'?` : '.'} ` +
      `Served: ${serving.join(', ')}. Correct targetAgent, start a worker with that agent, or pass queueForUnknownAgent: true.`,
    { field: 'targetAgent' },
  )
}
