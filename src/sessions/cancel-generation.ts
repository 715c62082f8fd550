/**
 * Cancel, as a person does it: scoped by session, and repeatable. The row moves at once; its holder is told by
 * NOTIFY and stopped by the fence in any case, its unsettled tool calls go with it (trigger generations_finish).
 */
import { AiDbError } from '../errors.js'
import { toQueryable, type DatabaseOptions, type DrizzleDatabase } from '../internal/database.js'
import { statement } from '../internal/statement.js'
import { requireId } from './input.js'

export interface CancelGeneration {
  sessionId: string
  generationId: string
}

// One update for every state: what has ended is touched, so that the repeat has an echo.
export const cancelSessionGenerationStatement = statement<
  [sessionId: string, generationId: string],
  { cancelled: boolean; txid: string }
>(
  'cancel_session_generation',
  (t) => `
  update ${t.generations} set
    status = case when status in ('pending', 'generating', 'waiting') then 'cancelled' else status end,
    cancel_reason = case when status in ('pending', 'generating', 'waiting') then 'by-user' else cancel_reason end,
    completed_at = coalesce(completed_at, now()), wait_reason = null
  where id = $2::text and session_id = $1::text
  returning status = 'cancelled' as cancelled, pg_current_xact_id()::xid::text as txid`,
)

/**
 * pending | generating | waiting → cancelled, with reason `by-user`. A repeat answers like the first time.
 *
 * @returns `cancelled` false when it had completed or failed before; the transaction's id in any case.
 * @throws AiDbError NOT_FOUND (also for a generation of another session), INVALID_INPUT, NOT_MIGRATED,
 *   PERMISSION_DENIED, DATABASE_UNREACHABLE.
 */
export async function cancelGeneration(
  db: DrizzleDatabase,
  { sessionId, generationId }: CancelGeneration,
  options: DatabaseOptions = {},
): Promise<{ txid: number; cancelled: boolean }> {
  requireId('sessionId', sessionId)
  requireId('generationId', generationId)
  const [row] = await toQueryable(db, options).query(cancelSessionGenerationStatement, [
    sessionId,
    generationId,
  ])
  if (row) return { txid: Number(row.txid), cancelled: row.cancelled }
  throw new AiDbError(
    'NOT_FOUND',
    `There is no generation ${generationId} in this session. Check the id.`,
    { field: 'generationId' },
  )
}
