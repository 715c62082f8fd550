/**
 * Settle, the cutover: one statement writes the assistant's message, folds the chunks and moves the
 * generation generating → completed | failed. The trigger generations_finish, in the same transaction,
 * marks the inbox processed and enqueues what arrived meanwhile.
 */
import { FencedError } from '../errors.js'
import type { Database } from '../internal/database.js'
import { jsonText, statement, storableText } from '../internal/statement.js'
import type { MessagePart } from '../schema.js'

export interface Cutover {
  generationId: string
  attempt: number
  status: 'completed' | 'failed'
  /** Why it failed; set exactly then. */
  error?: string | undefined
  /** The assistant's message; absent when there is nothing to say. */
  message?: { content: string; parts: MessagePart[] } | undefined
  finishReason?: string | undefined
  inputTokens?: number
  outputTokens?: number
  model?: string | null
  providerResponseId?: string | null
}

type Params = [
  generationId: string,
  attempt: number,
  status: string,
  error: string | null,
  content: string | null,
  parts: string,
  finishReason: string | null,
  inputTokens: number,
  outputTokens: number,
  model: string | null,
  providerResponseId: string | null,
]

// The reply goes to whoever wrote the newest message of the inbox. It is born processed: nobody's work.
export const settleGenerationStatement = statement<Params, { messageId: string | null }>(
  'settle_generation',
  (t) => `
  with settled as (
    update ${t.generations} set
      status = $3::text, error = $4::text, finish_reason = $7::text, completed_at = now(),
      input_tokens = input_tokens + $8::int, output_tokens = output_tokens + $9::int,
      model = coalesce($10::text, model), provider_response_id = coalesce($11::text, provider_response_id)
    where id = $1::text and attempt = $2::int and status = 'generating'
    returning id, session_id, agent_name, inbox),
  asked as (
    select m.actor_id, m.request_id from ${t.messages} m, settled s
     where m.id = s.inbox ->> -1),
  reply as (
    insert into ${t.messages} (session_id, role, actor_id, target_agent, content, parts, processed, generation_id, in_reply_to)
    select s.session_id, 'assistant', s.agent_name, coalesce((select actor_id from asked), 'user'), $5::text,
      $6::text::jsonb, true, s.id, (select request_id from asked)
    from settled s where $5::text is not null
    returning id),
  folded as (
    delete from ${t.chunks} c using settled s where c.generation_id = s.id and $3::text = 'completed')
  select (select id from reply) as "messageId" from settled`,
)

/**
 * Ends a generation.
 *
 * @returns the assistant's message id, if one was written.
 * @throws FencedError when the generation is no longer held at this attempt; nothing was written then.
 */
export async function settleGeneration(
  db: Database,
  cutover: Cutover,
): Promise<{ messageId: string | null }> {
  const [row] = await db.query(settleGenerationStatement, [
    cutover.generationId,
    cutover.attempt,
    cutover.status,
    cutover.error === undefined ? null : storableText(cutover.error),
    cutover.message === undefined ? null : storableText(cutover.message.content),
    jsonText(cutover.message?.parts),
    cutover.finishReason ?? null,
    cutover.inputTokens ?? 0,
    cutover.outputTokens ?? 0,
    cutover.model ?? null,
    cutover.providerResponseId ?? null,
  ])
  if (!row) throw new FencedError(`Generation ${cutover.generationId}`, cutover.attempt)
  return row
}
