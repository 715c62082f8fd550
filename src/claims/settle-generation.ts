/**
 * Settle, the cutover: one statement writes the assistant's message, folds the chunks and moves the
 * generation generating → completed | failed. The trigger generations_finish, in the same transaction,
 * marks the inbox processed and enqueues what arrived meanwhile.
 */
import { FencedError } from '../errors.js'
import { batchedPerDatabase } from '../internal/batched.js'
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

interface Settled {
  messageId: string | null
}

// Answers that are ready at the same moment, each under its own fence. It waits for no generation's lock: a row that
// somebody holds, one that is fenced, and one behind which messages wait (its trigger would lock the queued row,
// and two of those in one transaction could deadlock with a host's) is left to the statement above.
export const settleGenerationsStatement = statement<[cutovers: string], Settled & { id: string }>(
  'settle_generations',
  (t) => `
  with given as materialized (
    select * from jsonb_to_recordset($1::text::jsonb) as s (id text, attempt int, content text, parts jsonb,
      "finishReason" text, "inputTokens" int, "outputTokens" int, model text, "providerResponseId" text)),
  free as materialized (
    select held.place from given, lateral (
      select g.ctid as place from ${t.generations} g
       where g.id = given.id and g.attempt = given.attempt and g.status = 'generating' and (
         select q.id from ${t.generations} q
          where q.session_id = g.session_id and q.agent_name = g.agent_name and q.status = 'pending' and q.attempt = 0) is null
       for no key update skip locked) held),
  settled as (
    update ${t.generations} g set
      status = 'completed', error = null, finish_reason = given."finishReason", completed_at = now(),
      input_tokens = input_tokens + given."inputTokens", output_tokens = output_tokens + given."outputTokens",
      model = coalesce(given.model, g.model),
      provider_response_id = coalesce(given."providerResponseId", g.provider_response_id)
    from given where g.ctid = any (array(select place from free)) and g.id = given.id and g.attempt = given.attempt
    returning g.id, g.session_id, g.agent_name, g.inbox, given.content, given.parts),
  reply as (
    insert into ${t.messages} (session_id, role, actor_id, target_agent, content, parts, processed, generation_id, in_reply_to)
    select s.session_id, 'assistant', s.agent_name,
      coalesce((select m.actor_id from ${t.messages} m where m.id = s.inbox ->> -1), 'user'), s.content, s.parts, true, s.id,
      (select m.request_id from ${t.messages} m where m.id = s.inbox ->> -1)
    from settled s where s.content is not null
    returning id, generation_id),
  folded as (
    delete from ${t.chunks} c where c.generation_id = any (array(select id from settled)))
  select s.id, r.id as "messageId" from settled s left join reply r on r.generation_id = s.id`,
)

const settleInTurn = batchedPerDatabase<Cutover, Settled>((db) => ({
  together: (cutovers) => settleTogether(db, cutovers),
  alone: (cutover) => settleAlone(db, cutover),
}))

/**
 * Ends a generation. Cutovers of one moment are one statement.
 *
 * @returns the assistant's message id, if one was written.
 * @throws FencedError when the generation is no longer held at this attempt; nothing was written then.
 */
export function settleGeneration(db: Database, cutover: Cutover): Promise<Settled> {
  return cutover.status === 'completed' ? settleInTurn(db, cutover) : settleAlone(db, cutover)
}

async function settleTogether(
  db: Database,
  cutovers: readonly Cutover[],
): Promise<(Settled | undefined)[]> {
  // Of two for one generation the statement would write one and answer both.
  const firsts = new Map<string, Cutover>()
  for (const cutover of cutovers) {
    if (!firsts.has(cutover.generationId)) firsts.set(cutover.generationId, cutover)
  }
  const given = [...firsts.values()].map((cutover) => ({
    id: cutover.generationId,
    attempt: cutover.attempt,
    content: cutover.message?.content,
    parts: cutover.message?.parts,
    finishReason: cutover.finishReason,
    inputTokens: cutover.inputTokens ?? 0,
    outputTokens: cutover.outputTokens ?? 0,
    model: cutover.model,
    providerResponseId: cutover.providerResponseId,
  }))
  const rows = await db.query(settleGenerationsStatement, [jsonText(given)])
  const settled = new Map(rows.map(({ id, messageId }) => [id, { messageId }]))
  return cutovers.map((cutover) => {
    const { generationId } = cutover
    return firsts.get(generationId) === cutover ? settled.get(generationId) : undefined
  })
}

async function settleAlone(db: Database, cutover: Cutover): Promise<Settled> {
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
