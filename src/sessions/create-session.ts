/** Sessions: made before their first message, so that a mistyped id is an error and not a new conversation. */
import { AiDbError } from '../errors.js'
import { toQueryable, type DatabaseOptions, type DrizzleDatabase } from '../internal/database.js'
import { statement } from '../internal/statement.js'
import { requireId, requireJson, requireSmallInteger, requireText } from './input.js'

export interface NewSession {
  /** @default a random UUID */
  id?: string
  title?: string
  /** Whose it is: a user, a team. `listSessions` and the synced list are filtered by it. @default nobody's */
  ownerId?: string
  /** Sessions with the same key share the workers' `concurrencyPerKey` (a tenant, say). */
  concurrencyKey?: string
  /** Higher is served first, from -32767 to 32767. @default 0 */
  priority?: number
  metadata?: Record<string, unknown>
  /**
   * What a session with this id and owner means: an error (DUPLICATE_ID), or a repeat of the same call, which touches it.
   * Another owner's is an error in any case.
   * @default 'refuse'
   */
  onDuplicate?: 'refuse' | 'touch'
}

type Params = [
  id: string,
  title: string | null,
  key: string | null,
  priority: number,
  metadata: string,
  ownerId: string | null,
  touch: boolean,
]

// `xmax` is set where the row was there before.
export const createSessionStatement = statement<
  Params,
  { id: string; repeated: boolean; txid: string }
>(
  'create_session',
  (t) => `
  insert into ${t.sessions} as s (id, title, concurrency_key, priority, metadata, owner_id)
  values ($1::text, $2::text, $3::text, $4::int, $5::text::jsonb, $6::text)
  on conflict (id) do update set updated_at = now()
    where $7::boolean and s.owner_id is not distinct from excluded.owner_id
  returning id, xmax <> 0 as repeated, pg_current_xact_id()::xid::text as txid`,
)

/**
 * Creates a session, in the host's transaction when `db` is one.
 *
 * @returns its id, whether it was there before, and the transaction's id, for `awaitTxId` of a synced collection.
 * @throws AiDbError INVALID_INPUT, DUPLICATE_ID, NOT_MIGRATED, PERMISSION_DENIED, DATABASE_UNREACHABLE.
 */
export async function createSession(
  db: DrizzleDatabase,
  session: NewSession = {},
  options: DatabaseOptions = {},
): Promise<{ id: string; txid: number; repeated: boolean }> {
  const id = session.id ?? crypto.randomUUID()
  requireId('id', id)
  if (session.title !== undefined) requireText('title', session.title, 1000)
  if (session.ownerId !== undefined) requireId('ownerId', session.ownerId)
  if (session.concurrencyKey !== undefined) requireId('concurrencyKey', session.concurrencyKey)
  if (session.priority !== undefined) requireSmallInteger('priority', session.priority)
  const [row] = await toQueryable(db, options).query(createSessionStatement, [
    id,
    session.title ?? null,
    session.concurrencyKey ?? null,
    session.priority ?? 0,
    requireJson('metadata', session.metadata ?? {}),
    session.ownerId ?? null,
    session.onDuplicate === 'touch',
  ])
  if (row) return { id: row.id, txid: Number(row.txid), repeated: row.repeated }
  throw new AiDbError(
    'DUPLICATE_ID',
    `A session with the id ${id} exists already. Send a new id, or treat it as created.`,
    { field: 'id' },
  )
}
