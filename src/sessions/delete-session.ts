/**
 * Delete: a session goes, and by its foreign keys all that hangs on it. Live text on a stream server stays there
 * until that server's own retention takes it.
 */
import { toQueryable, type DatabaseOptions, type DrizzleDatabase } from '../internal/database.js'
import { statement } from '../internal/statement.js'
import { requireId } from './input.js'

export const deleteSessionStatement = statement<
  [sessionId: string],
  { deleted: boolean; txid: string }
>(
  'delete_session',
  (t) => `
  select ${t.fn('delete_session')}($1::text) as deleted, pg_current_xact_id()::xid::text as txid`,
)

/**
 * Deletes a session with its messages, generations, tool calls and approvals. Runs in it are told and stop; nothing
 * they write afterwards can land, as their rows are gone.
 *
 * @returns `deleted` false when there was none (any more): a repeat is fine.
 * @throws AiDbError INVALID_INPUT, NOT_MIGRATED, PERMISSION_DENIED, DATABASE_UNREACHABLE.
 */
export async function deleteSession(
  db: DrizzleDatabase,
  { sessionId }: { sessionId: string },
  options: DatabaseOptions = {},
): Promise<{ txid: number; deleted: boolean }> {
  requireId('sessionId', sessionId)
  const [row] = await toQueryable(db, options).query(deleteSessionStatement, [sessionId])
  return { txid: Number(row!.txid), deleted: row!.deleted }
}
