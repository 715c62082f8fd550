/**
 * Cancel: a person, a timeout or an upstream failure stops a generation, from any process. The row moves
 * at once; whoever runs it is told by NOTIFY and stopped by the fence in any case. Its unsettled tool
 * calls go with it (trigger generations_finish), so a late result finds nothing to settle.
 */
import type { CancelReason } from '../contract/status.js'
import { AiDbError } from '../errors.js'
import type { Queryable } from '../internal/database.js'
import { statement } from '../internal/statement.js'

export const cancelGenerationStatement = statement<
  [generationId: string, reason: CancelReason],
  { found: boolean; cancelled: boolean }
>(
  'cancel_generation',
  (t) => `
  with cancelled as (
    update ${t.generations} set
      status = 'cancelled', cancel_reason = $2::text, wait_reason = null, completed_at = now()
    where id = $1::text and status in ('pending', 'generating', 'waiting') returning id)
  select exists (select 1 from ${t.generations} where id = $1::text) as found,
    exists (select 1 from cancelled) as cancelled`,
)

/**
 * pending | generating | waiting → cancelled.
 *
 * @returns false when it had ended already.
 * @throws AiDbError NOT_FOUND.
 */
export async function cancelGeneration(
  db: Queryable,
  generationId: string,
  reason: CancelReason = 'by-user',
): Promise<boolean> {
  const [row] = await db.query(cancelGenerationStatement, [generationId, reason])
  if (row?.found) return row.cancelled
  throw new AiDbError('NOT_FOUND', `There is no generation ${generationId}. Check the id.`, {
    field: 'generationId',
  })
}

/** The text a cancelled run had produced, kept as a message of the session: superseded, if an edit cancelled it. */
export const keepPartialStatement = statement<
  [generationId: string, attempt: number, content: string, parts: string],
  { id: string }
>(
  'keep_partial',
  (t) => `
  with stopped as (
    select id, session_id, agent_name, inbox, metadata from ${t.generations}
     where id = $1::text and attempt = $2::int and status = 'cancelled'
       and not exists (select 1 from ${t.messages} where generation_id = $1::text) for no key update),
  folded as (delete from ${t.chunks} c using stopped where c.generation_id = stopped.id)
  insert into ${t.messages} (session_id, role, actor_id, target_agent, content, parts, processed, generation_id,
    superseded_by, metadata)
  select session_id, 'assistant', agent_name,
    coalesce((select actor_id from ${t.messages} m where m.id = inbox ->> -1), 'user'),
    $3::text, $4::text::jsonb, true, id, metadata ->> 'supersededBy', '{"partial": true}'
  from stopped returning id`,
)
