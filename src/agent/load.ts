/**
 * Load: everything a run needs, in one statement: the conversation as this agent sees it, the tool calls
 * of that and of the generation itself, and the text of its finished steps.
 */
import type { ToolCallStatus } from '../contract/status.js'
import type { Database } from '../internal/database.js'
import { statement } from '../internal/statement.js'
import type { MessagePart } from '../schema.js'

export interface LoadedMessage {
  id: string
  seq: number
  role: 'user' | 'assistant' | 'system'
  actorId: string
  content: string
  parts: MessagePart[] | null
  /** The generation that wrote it, or took it in. */
  generationId: string | null
}

export interface LoadedToolCall {
  id: string
  generationId: string
  step: number
  index: number
  providerCallId: string
  name: string
  args: unknown
  status: ToolCallStatus
  result: unknown
  error: string | null
  attempt: number
  timeoutMs: number | null
  /** Must people still approve it? */
  gated: boolean
}

export interface LoadedChunk {
  index: number
  attempt: number
  step: number
  type: string
  content: string
}

export interface Loaded {
  /** Oldest first, by `seq`. */
  messages: LoadedMessage[]
  toolCalls: LoadedToolCall[]
  chunks: LoadedChunk[]
}

// An agent sees what was said to it and what it said. A reply to its question is that call's result
// already. Superseded messages are a record, not history. Messages that arrived after the claim belong to the next generation.
export const loadStatement = statement<[generationId: string, limit: number], Loaded>(
  'load_generation',
  (t) => `
  with run as (select id, session_id, agent_name, inbox from ${t.generations} where id = $1::text),
  history as (
    select m.* from ${t.messages} m, run
     where m.session_id = run.session_id and (m.processed or run.inbox ? m.id) and m.superseded_by is null
       and (m.actor_id = run.agent_name and m.role = 'assistant'
         or m.target_agent = run.agent_name and m.in_reply_to is null)
     order by m.seq desc limit $2::int)
  select
    (select coalesce(jsonb_agg(jsonb_build_object(
        'id', id, 'seq', seq, 'role', role, 'actorId', actor_id, 'content', content, 'parts', parts,
        'generationId', coalesce(generation_id, processed_by)) order by seq), '[]') from history) as messages,
    (select coalesce(jsonb_agg(jsonb_build_object(
        'id', c.id, 'generationId', c.generation_id, 'step', c.step, 'index', c.index,
        'providerCallId', c.provider_call_id, 'name', c.name, 'args', c.args, 'status', c.status,
        'result', c.result, 'error', c.error, 'attempt', c.attempt, 'timeoutMs', c.timeout_ms,
        'gated', c.approvals_required > 0 and c.approved_at is null)
        order by c.generation_id, c.step, c.index), '[]')
      from ${t.toolCalls} c
     where c.generation_id = any (
       array(select generation_id from history where parts is not null union select $1::text))) as "toolCalls",
    (select coalesce(jsonb_agg(jsonb_build_object(
        'index', c.index, 'attempt', c.attempt, 'step', c.step, 'type', c.type, 'content', c.content)
        order by c.index), '[]')
      from ${t.chunks} c where c.generation_id = $1::text) as chunks`,
)

export async function loadGeneration(
  db: Database,
  generationId: string,
  historyLimit: number,
): Promise<Loaded> {
  const [row] = await db.query(loadStatement, [generationId, historyLimit])
  return row!
}
