/**
 * Retry: the newest turn of an agent is answered anew by another generation (a settled row stays settled), in one
 * function of migrations/0006_people.sql.
 */
import { toQueryable, type DatabaseOptions, type DrizzleDatabase } from '../internal/database.js'
import { statement } from '../internal/statement.js'
import { requireId } from './input.js'

export interface RetryGeneration {
  sessionId: string
  /** The generation to retry: settled, and the newest turn of its agent in the session. */
  generationId: string
  /** The new generation's id: repeating a retry by it answers like the first time. @default a random UUID */
  id?: string
  /** Who asks for it. @default 'user' */
  actorId?: string
}

export const retryGenerationStatement = statement<
  [sessionId: string, generationId: string, id: string, actorId: string],
  { generationId: string; txid: string }
>(
  'retry_generation',
  (t) => `
  select ${t.fn('retry_generation')}($1::text, $2::text, $3::text, $4::text) as "generationId",
    pg_current_xact_id()::xid::text as txid`,
)

/**
 * Asks for another answer: the old one is superseded by the new generation's id, and the messages it answered are
 * unprocessed again until a worker claims that.
 *
 * @returns the generation that will answer: `id`, or the queued one of that agent if there was one.
 * @throws AiDbError UNKNOWN_SESSION, NOT_FOUND (also for a generation of another session), ILLEGAL_TRANSITION when it
 *   has not ended or is not the newest turn, DUPLICATE_ID, INVALID_INPUT, NOT_MIGRATED, PERMISSION_DENIED,
 *   DATABASE_UNREACHABLE. Nothing is written then.
 */
export async function retryGeneration(
  db: DrizzleDatabase,
  retry: RetryGeneration,
  options: DatabaseOptions = {},
): Promise<{ txid: number; generationId: string }> {
  const { sessionId, generationId, id = crypto.randomUUID(), actorId = 'user' } = retry
  for (const [field, value] of Object.entries({ sessionId, generationId, id, actorId })) {
    requireId(field, value)
  }
  const [row] = await toQueryable(db, options).query(retryGenerationStatement, [
    ...([sessionId, generationId, id, actorId] as const),
  ])
  return { txid: Number(row!.txid), generationId: row!.generationId }
}
