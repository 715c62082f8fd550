/**
 * Edit: a new message takes the place of one and of everything that came after it. What was answering those is
 * cancelled, and the new one enqueues its own turn, in one function of migrations/0006_people.sql.
 */
import { toQueryable, type DatabaseOptions, type DrizzleDatabase } from '../internal/database.js'
import { statement } from '../internal/statement.js'
import { MAX_CONTENT_BYTES } from '../schema.js'
import { requireContent, requireId } from './input.js'

export interface EditMessage {
  sessionId: string
  /** The message to replace: one that a person wrote. */
  messageId: string
  /** The new message's id: repeating an edit by it answers like the first time. @default a random UUID */
  id?: string
  content: string
  /** Who edits. @default 'user' */
  actorId?: string
}

export const editMessageStatement = statement<
  [sessionId: string, messageId: string, id: string, content: string, actorId: string],
  { repeated: boolean; txid: string }
>(
  'edit_message',
  (t) => `
  select ${t.fn('edit_message')}($1::text, $2::text, $3::text, $4::text, $5::text) as repeated,
    pg_current_xact_id()::xid::text as txid`,
)

/**
 * Replaces a message: it and all after it in the session get `superseded_by = id`, which takes them out of history
 * and inboxes; unsettled generations of the agents they were for are cancelled (`by-user`); the new message goes to
 * the same agent.
 *
 * @returns the new message's id and the transaction's id.
 * @throws AiDbError UNKNOWN_SESSION, NOT_FOUND (also for a message of another session), ILLEGAL_TRANSITION when it was
 *   superseded before, INVALID_INPUT (also for a message that no person wrote), DUPLICATE_ID, NOT_MIGRATED,
 *   PERMISSION_DENIED, DATABASE_UNREACHABLE. Nothing is written then.
 */
export async function editMessage(
  db: DrizzleDatabase,
  edit: EditMessage,
  options: DatabaseOptions = {},
): Promise<{ id: string; txid: number; repeated: boolean }> {
  const { sessionId, messageId, id = crypto.randomUUID(), content, actorId = 'user' } = edit
  requireContent('content', content, MAX_CONTENT_BYTES)
  for (const [field, value] of Object.entries({ sessionId, messageId, id, actorId })) {
    requireId(field, value)
  }
  const [row] = await toQueryable(db, options).query(editMessageStatement, [
    ...([sessionId, messageId, id, content, actorId] as const),
  ])
  return { id, txid: Number(row!.txid), repeated: row!.repeated }
}
