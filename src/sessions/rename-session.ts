/** Rename: a session's title, for lists. */
import { AiDbError } from '../errors.js'
import { toQueryable, type DatabaseOptions, type DrizzleDatabase } from '../internal/database.js'
import { statement } from '../internal/statement.js'
import { requireContent, requireId } from './input.js'

export interface RenameSession {
  sessionId: string
  /** 1 to 1000 bytes, not blank. */
  title: string
}

export const renameSessionStatement = statement<
  [sessionId: string, title: string],
  { txid: string }
>(
  'rename_session',
  (t) => `
  update ${t.sessions} set title = $2::text where id = $1::text
  returning pg_current_xact_id()::xid::text as txid`,
)

/**
 * Gives a session another title. A repeat touches the row again.
 *
 * @throws AiDbError UNKNOWN_SESSION, INVALID_INPUT, NOT_MIGRATED, PERMISSION_DENIED, DATABASE_UNREACHABLE.
 */
export async function renameSession(
  db: DrizzleDatabase,
  { sessionId, title }: RenameSession,
  options: DatabaseOptions = {},
): Promise<{ txid: number }> {
  requireId('sessionId', sessionId)
  requireContent('title', title, 1000)
  const [row] = await toQueryable(db, options).query(renameSessionStatement, [sessionId, title])
  if (row) return { txid: Number(row.txid) }
  throw new AiDbError('UNKNOWN_SESSION', `There is no session ${sessionId}. Check the id.`, {
    field: 'sessionId',
  })
}
