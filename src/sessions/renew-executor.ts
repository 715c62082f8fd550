/** Renew: an executor without a database connection says that it lives. See claim-tool-calls-for.ts. */
import { toQueryable, type DatabaseOptions, type DrizzleDatabase } from '../internal/database.js'
import { statement } from '../internal/statement.js'
import { executorWorkerId, requirePositive } from './claim-tool-calls-for.js'
import { requireId } from './input.js'

export interface RenewExecutor {
  executorId: string
  /** From now on, in ms. @default 30_000 */
  leaseMs?: number
}

export const renewExecutorStatement = statement<
  [workerId: string, leaseMs: number],
  { renewed: boolean; txid: string }
>(
  'renew_executor',
  (t) => `
  with renewed as (
    update ${t.workers} set lease_expires_at = now() + $2::float8 * interval '1 millisecond'
     where id = $1::text returning id)
  select exists (select 1 from renewed) as renewed, pg_current_xact_id()::xid::text as txid`,
)

/**
 * Extends an executor's lease.
 *
 * @returns `renewed` false when it was lost, or never taken: what it held is others' now, and nothing it settles lands.
 * @throws AiDbError INVALID_INPUT, NOT_MIGRATED, PERMISSION_DENIED, DATABASE_UNREACHABLE.
 */
export async function renewExecutor(
  db: DrizzleDatabase,
  { executorId, leaseMs = 30_000 }: RenewExecutor,
  options: DatabaseOptions = {},
): Promise<{ txid: number; renewed: boolean }> {
  requireId('executorId', executorId)
  requirePositive('leaseMs', leaseMs)
  const [row] = await toQueryable(db, options).query(renewExecutorStatement, [
    executorWorkerId(executorId),
    leaseMs,
  ])
  return { txid: Number(row!.txid), renewed: row!.renewed }
}
