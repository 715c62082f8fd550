/** Sessions: made before their first message, so that a mistyped id is an error and not a new conversation. */
import { toQueryable, type DatabaseOptions, type DrizzleDatabase } from '../internal/database.js'
import { statement } from '../internal/statement.js'
import { requireId, requireJson, requireSmallInteger, requireText } from './input.js'

export interface NewSession {
  /** @default a random UUID */
  id?: string
  title?: string
  /** Sessions with the same key share the workers' `concurrencyPerKey` (a tenant, say). */
  concurrencyKey?: string
  /** Higher is served first, from -32767 to 32767. @default 0 */
  priority?: number
  metadata?: Record<string, unknown>
}

const createSessionStatement = statement<
  [id: string, title: string | null, key: string | null, priority: number, metadata: string],
  { id: string; txid: string }
>(
  'create_session',
  (t) => `
  insert into ${t.sessions} (id, title, concurrency_key, priority, metadata)
  values ($1::text, $2::text, $3::text, $4::int, $5::text::jsonb)
  returning id, pg_current_xact_id()::xid::text as txid`,
)

/**
 * Creates a session, in the host's transaction when `db` is one.
 *
 * @returns its id and the transaction's id, for `awaitTxId` of a synced collection.
 * @throws AiDbError INVALID_INPUT, DUPLICATE_ID, NOT_MIGRATED, PERMISSION_DENIED, DATABASE_UNREACHABLE.
 */
export async function createSession(
  db: DrizzleDatabase,
  session: NewSession = {},
  options: DatabaseOptions = {},
): Promise<{ id: string; txid: number }> {
  const id = session.id ?? crypto.randomUUID()
  requireId('id', id)
  if (session.title !== undefined) requireText('title', session.title, 1000)
  if (session.concurrencyKey !== undefined) requireId('concurrencyKey', session.concurrencyKey)
  if (session.priority !== undefined) requireSmallInteger('priority', session.priority)
  const [row] = await toQueryable(db, options).query(createSessionStatement, [
    id,
    session.title ?? null,
    session.concurrencyKey ?? null,
    session.priority ?? 0,
    requireJson('metadata', session.metadata ?? {}),
  ])
  return { id: row!.id, txid: Number(row!.txid) }
}
