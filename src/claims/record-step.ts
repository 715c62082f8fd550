/**
 * The step boundary: one model turn's text and tool calls become rows, in one statement, under the fence.
 *
 * After it the turn is never paid for again: a crash goes on from the tool calls. It is also what counts
 * as progress, so `attempts_without_progress` starts again at 0.
 */
import { FencedError } from '../errors.js'
import type { Database } from '../internal/database.js'
import { jsonText, statement, storableText } from '../internal/statement.js'

export interface NewToolCall {
  providerCallId: string
  name: string
  args: unknown
  /**
   * `executing`: the caller runs it. `pending`: another process does. `failed`: nothing can
   * (unknown tool, malformed arguments), and `error` says why.
   */
  status: 'pending' | 'executing' | 'failed'
  error?: string | undefined
  timeoutMs?: number | undefined
  /** A pending call nobody ran after so many ms fails. */
  expiresInMs?: number | undefined
  maxAttempts?: number | undefined
  /** Only a worker of the agent may run it: no executor is offered it by name. */
  workerOnly?: boolean | undefined
  /** So many people must approve it first; it is `pending` until then. */
  approvalsRequired?: number | undefined
  /** The call is a message to another agent, whose reply settles it. */
  ask?: { agent: string; content: string } | undefined
}

export interface StepRecord {
  generationId: string
  attempt: number
  workerId: string
  /** The step that ended; the generation goes on at `step + 1`. */
  step: number
  /** Text of the step that has no row yet. */
  text: string
  /** Index of the chunk row that takes the text. */
  chunkIndex: number
  toolCalls: readonly NewToolCall[]
  inputTokens: number
  outputTokens: number
  model: string | null
  providerResponseId: string | null
}

export interface RecordedToolCall {
  /** The row's id: the provider's, or that plus a suffix where the provider had used it before. */
  id: string
  providerCallId: string
  index: number
}

type Params = [
  generationId: string,
  attempt: number,
  step: number,
  text: string,
  chunkIndex: number,
  toolCalls: string,
  workerId: string,
  inputTokens: number,
  outputTokens: number,
  model: string | null,
  providerResponseId: string | null,
]

export const recordStepStatement = statement<Params, { held: boolean; calls: RecordedToolCall[] }>(
  'record_step',
  (t) => `
  with held as (
    update ${t.generations} set
      step = $3::int + 1, attempts_without_progress = 0, model = $10::text, provider_response_id = $11::text,
      input_tokens = input_tokens + $8::int, output_tokens = output_tokens + $9::int
    where id = $1::text and attempt = $2::int and status = 'generating' and step = $3::int
    returning id, session_id, agent_name, priority),
  words as (
    insert into ${t.chunks} (generation_id, session_id, index, attempt, step, type, content, is_final)
    select id, session_id, $5::int, $2::int, $3::int, 'text', $4::text, true from held where $4::text <> ''),
  given as (
    select c.*,
      -- Counted, not "exists", which the planner answers with a hash of the whole table.
      case when (select count(*) from ${t.toolCalls} o where o.id = c."providerCallId") > 0
        then c."providerCallId" || '#' || held.id || ':' || $3::int else c."providerCallId" end as id
    from held, rows from (jsonb_to_recordset($6::text::jsonb) as ("providerCallId" text, name text, args jsonb,
      status text, error text, "timeoutMs" int, "expiresInMs" float8, "maxAttempts" int,
      "workerOnly" boolean, "approvalsRequired" int, ask jsonb)) with ordinality
      as c ("providerCallId", name, args, status, error, "timeoutMs", "expiresInMs", "maxAttempts", "workerOnly",
        "approvalsRequired", ask, place)),
  calls as (
    insert into ${t.toolCalls} (id, generation_id, session_id, step, index, provider_call_id, name, args, status,
      error, timeout_ms, expires_at, max_attempts, priority, attempt, worker_id, started_at, completed_at,
      worker_only, approvals_required)
    select c.id, held.id, held.session_id, $3::int, c.place - 1, c."providerCallId", c.name, c.args, c.status,
      c.error, c."timeoutMs", now() + c."expiresInMs" * interval '1 millisecond', coalesce(c."maxAttempts", 5),
      held.priority, case c.status when 'executing' then 1 else 0 end,
      case c.status when 'executing' then $7::text end,
      case c.status when 'executing' then now() end, case c.status when 'failed' then now() end,
      coalesce(c."workerOnly", false) or c.ask is not null, coalesce(c."approvalsRequired", 0)
    from held, given c
    returning id, provider_call_id, index),
  asked as (
    insert into ${t.messages} (session_id, role, actor_id, target_agent, content, request_id)
    select held.session_id, 'user', held.agent_name, c.ask ->> 'agent', c.ask ->> 'content', c.id
    from held, given c where c.ask is not null order by c.place)
  select true as held, coalesce((
      select jsonb_agg(jsonb_build_object('id', id, 'providerCallId', provider_call_id, 'index', index) order by index)
        from calls), '[]') as calls
    from held`,
)

/**
 * Persists a model turn that asked for tools.
 *
 * @throws FencedError when the generation is no longer held at this attempt.
 */
export async function recordStep(db: Database, record: StepRecord): Promise<RecordedToolCall[]> {
  const [row] = await db.query(recordStepStatement, [
    record.generationId,
    record.attempt,
    record.step,
    storableText(record.text),
    record.chunkIndex,
    jsonText(record.toolCalls),
    record.workerId,
    record.inputTokens,
    record.outputTokens,
    record.model,
    record.providerResponseId,
  ])
  if (!row) throw new FencedError(`Generation ${record.generationId}`, record.attempt)
  return row.calls
}
