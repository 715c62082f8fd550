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
  /** A client's own id makes a retried send an error (DUPLICATE_ID) instead of a second message. @default a random UUID */
  id?: string
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
  txid: string
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
]

// With no worker up at all nothing can be said about the agent's name, and the message is queued.
const sendMessageStatement = statement<Params, Sent>(
  'send_message',
  (t) => `
  with serving as (
    select jsonb_agg(distinct agent) as names from ${t.workers} w, unnest(w.agents) agent
     where w.lease_expires_at > now()),
  sent as (
    insert into ${t.messages} (id, session_id, role, actor_id, target_agent, content, request_id, metadata)
    select $1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text::jsonb from serving
     where $9::boolean or names is null or names ? $5::text
    returning id)
  select (select id from sent) as id, pg_current_xact_id()::xid::text as txid,
    case when not exists (select 1 from sent) then names end as serving
  from serving`,
)

/**
 * Sends a message to an agent. When it has committed, a pending generation waits for a worker.
 *
 * @returns its id and the transaction's id, for `awaitTxId` of a synced collection.
 * @throws AiDbError INVALID_INPUT, UNKNOWN_SESSION, UNKNOWN_AGENT, DUPLICATE_ID, NOT_MIGRATED,
 *   PERMISSION_DENIED, DATABASE_UNREACHABLE. Nothing is written then.
 */
export async function sendMessage(
  db: DrizzleDatabase,
  message: NewMessage,
  options: DatabaseOptions = {},
): Promise<{ id: string; txid: number }> {
  const params = paramsOf(message)
  const [row] = await toQueryable(db, options).query(sendMessageStatement, params)
  if (row!.id === null) throw unknownAgent(params[4], row!.serving ?? [])
  return { id: row!.id, txid: Number(row!.txid) }
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
  ]
}

function unknownAgent(name: string, serving: string[]): AiDbError {
  const near = nearest(name, serving)
  return new AiDbError(
    'UNKNOWN_AGENT',
    `No running worker serves the agent '${name}'${near ? `; did you mean '${near}'?` : '.'} ` +
      `Served: ${serving.join(', ')}. Correct targetAgent, start a worker with that agent, or pass queueForUnknownAgent: true.`,
    { field: 'targetAgent' },
  )
}
