/** List: an owner's sessions, newest first. */
import type { SessionRecord } from '../contract/records.js'
import { AiDbError } from '../errors.js'
import { toQueryable, type DatabaseOptions, type DrizzleDatabase } from '../internal/database.js'
import { statement } from '../internal/statement.js'
import { requireId } from './input.js'

export interface ListSessions {
  /** Whose: `ownerId` of `createSession`. A session without an owner is on nobody's list. */
  ownerId: string
  /** At most so many, up to 1000. @default 100 */
  limit?: number
}

type Row = Omit<SessionRecord, 'createdAt' | 'updatedAt'> & { createdMs: number; updatedMs: number }

// Instants as numbers: drivers differ in what they make of timestamps.
export const listSessionsStatement = statement<[ownerId: string, limit: number], Row>(
  'list_sessions',
  (t) => `
  select id, title, owner_id as "ownerId", metadata,
    (extract(epoch from created_at) * 1000)::float8 as "createdMs",
    (extract(epoch from updated_at) * 1000)::float8 as "updatedMs"
  from ${t.sessions} where owner_id = $1::text order by created_at desc limit $2::int`,
)

/** @throws AiDbError INVALID_INPUT, NOT_MIGRATED, PERMISSION_DENIED, DATABASE_UNREACHABLE. */
export async function listSessions(
  db: DrizzleDatabase,
  { ownerId, limit = 100 }: ListSessions,
  options: DatabaseOptions = {},
): Promise<SessionRecord[]> {
  requireId('ownerId', ownerId)
  if (!Number.isInteger(limit) || limit < 1 || limit > 1000) {
    throw new AiDbError(
      'INVALID_INPUT',
      `limit must be a whole number from 1 to 1000, got ${String(limit)}.`,
      { field: 'limit' },
    )
  }
  const rows = await toQueryable(db, options).query(listSessionsStatement, [ownerId, limit])
  return rows.map(({ createdMs, updatedMs, ...row }) => ({
    ...row,
    createdAt: new Date(createdMs),
    updatedAt: new Date(updatedMs),
  }))
}
