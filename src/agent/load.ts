/**
 * Load: everything a run needs, in one statement: the conversation as this agent sees it, the tool calls
 * of that and of the generation itself, and the text of its finished steps.
 */
import type { ToolCallStatus } from '../contract/status.js'
import { batchedPerDatabase } from '../internal/batched.js'
import type { Database } from '../internal/database.js'
import { intArray, statement, textArray, type TableNames } from '../internal/statement.js'
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
const loadText = (t: TableNames, id: string, limit: string) => `
  with run as (select id, session_id, agent_name, inbox from ${t.generations} where id = ${id}),
  history as (
    select m.* from ${t.messages} m, run
     where m.session_id = run.session_id and (m.processed or run.inbox ? m.id) and m.superseded_by is null
       and (m.actor_id = run.agent_name and m.role = 'assistant'
         or m.target_agent = run.agent_name and m.in_reply_to is null)
     order by m.seq desc limit ${limit})
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
       array(select generation_id from history where parts is not null union select ${id}))) as "toolCalls",
    (select coalesce(jsonb_agg(jsonb_build_object(
        'index', c.index, 'attempt', c.attempt, 'step', c.step, 'type', c.type, 'content', c.content)
        order by c.index), '[]')
      from ${t.chunks} c where c.generation_id = ${id}) as chunks`

export const loadStatement = statement<[generationId: string, limit: number], Loaded>(
  'load_generation',
  (t) => loadText(t, '$1::text', '$2::int'),
)

// Generations that were claimed together.
export const loadGenerationsStatement = statement<
  [generationIds: string, limits: string],
  Loaded & { id: string }
>(
  'load_generations',
  (t) => `
  select wanted.id, loaded.* from unnest($1::text[], $2::int[]) as wanted (id, history_limit), lateral (${loadText(t, 'wanted.id', 'wanted.history_limit')}) loaded`,
)

interface Wanted {
  generationId: string
  historyLimit: number
}

const loadInTurn = batchedPerDatabase<Wanted, Loaded>((db) => ({
  together: async (wanted) => {
    const rows = await db.query(loadGenerationsStatement, [
      textArray(wanted.map(({ generationId }) => generationId)),
      intArray(wanted.map(({ historyLimit }) => historyLimit)),
    ])
    const loaded = new Map(rows.map((row) => [row.id, row]))
    return wanted.map(({ generationId }) => loaded.get(generationId))
  },
  alone: async ({ generationId, historyLimit }) => {
    const [row] = await db.query(loadStatement, [generationId, historyLimit])
    return row!
  },
}))

/** What a run needs. Generations asked for at the same moment are loaded by one statement. */
export function loadGeneration(
  db: Database,
  generationId: string,
  historyLimit: number,
): Promise<Loaded> {
  return loadInTurn(db, { generationId, historyLimit })
}
