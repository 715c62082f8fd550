/** Reads of one generation: where it stands, what it said, how its calls went. */
import type { GenerationStatus, ToolCallStatus } from '../contract/status.js'
import type { Queryable } from '../internal/database.js'
import { statement } from '../internal/statement.js'

export interface GenerationState {
  id: string
  sessionId: string
  status: GenerationStatus
  attempt: number
  step: number
  workerId: string | null
  error: string | null
  cancelReason: string | null
  /** The assistant's message, once there is one. */
  content: string | null
}

export const readGenerationStatement = statement<[generationId: string], GenerationState>(
  'read_generation',
  (t) => `
  select g.id, g.session_id as "sessionId", g.status, g.attempt, g.step, g.worker_id as "workerId", g.error,
    g.cancel_reason as "cancelReason",
    (select m.content from ${t.messages} m where m.generation_id = g.id and m.role = 'assistant' limit 1) as content
  from ${t.generations} g where g.id = $1::text`,
)

export async function readGeneration(
  db: Queryable,
  generationId: string,
): Promise<GenerationState | undefined> {
  const [row] = await db.query(readGenerationStatement, [generationId])
  return row
}

export const generationForMessageStatement = statement<[messageId: string], { id: string }>(
  'generation_for_message',
  (t) => `
  select g.id from ${t.messages} m
    join ${t.generations} g on g.session_id = m.session_id and g.agent_name = m.target_agent
   where m.id = $1::text and (g.id = m.processed_by or g.inbox ? m.id
     or (m.superseded_by is null and g.status = 'pending' and g.attempt = 0))
   order by coalesce(g.id = m.processed_by, false) desc, (not m.processed and g.completed_at is null) desc,
     (g.inbox ? m.id) desc, g.created_at desc limit 1`,
)

/**
 * The generation that answers a message: the one that took it in, or the one that will. After a retry that is the new
 * one; a message superseded before any took it in has none.
 */
export async function generationForMessage(
  db: Queryable,
  messageId: string,
): Promise<string | undefined> {
  const [row] = await db.query(generationForMessageStatement, [messageId])
  return row?.id
}

export interface ToolCallState {
  id: string
  status: ToolCallStatus
  result: unknown
  error: string | null
  attempt: number
  /** Must people still approve it? */
  gated: boolean
}

export const readToolCallsStatement = statement<
  [generationId: string, step: number],
  ToolCallState
>(
  'read_tool_calls',
  (t) => `
  select id, status, result, error, attempt, approvals_required > 0 and approved_at is null as gated
  from ${t.toolCalls}
   where generation_id = $1::text and step = $2::int order by index`,
)

/** The calls of one step as they stand. */
export function readToolCalls(
  db: Queryable,
  generationId: string,
  step: number,
): Promise<ToolCallState[]> {
  return db.query(readToolCallsStatement, [generationId, step])
}
