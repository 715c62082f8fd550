/**
 * Claim, for an executor without a database connection: a browser tab that runs a tool of the agent which has no
 * function in the worker. It holds what it claimed by a lease, a row of `workers`; one that goes silent loses its
 * calls to the next, under another attempt.
 */
import type { ClaimedToolCall } from '../contract/requests.js'
import { AiDbError } from '../errors.js'
import { toQueryable, type DatabaseOptions, type DrizzleDatabase } from '../internal/database.js'
import { statement, textArray } from '../internal/statement.js'
import { requireId } from './input.js'

export interface ClaimToolCallsFor {
  sessionId: string
  /** One per tab or device. */
  executorId: string
  /** The tools it has. */
  tools: readonly string[]
  /** Only these calls. @default any of its session and tools */
  toolCallIds?: readonly string[] | undefined
  /** At most so many calls. @default 1 */
  limit?: number
  /** How long it may be silent before others take its calls, in ms. @default 30_000 */
  leaseMs?: number
}

/** The `workers` row of an executor. */
export const executorWorkerId = (executorId: string): string => `browser:${executorId}`

export const claimToolCallsForStatement = statement<
  [
    sessionId: string,
    workerId: string,
    tools: string,
    limit: number,
    leaseMs: number,
    among: string | null,
  ],
  { calls: ClaimedToolCall[]; txid: string }
>(
  'claim_tool_calls_for',
  (t) => `
  select coalesce(jsonb_agg(jsonb_build_object('id', c.id, 'generationId', c.generation_id, 'name', c.name,
      'args', c.args, 'attempt', c.attempt, 'timeoutMs', c.timeout_ms) order by c.run_at, c.id), '[]') as calls,
    pg_current_xact_id()::xid::text as txid
  from ${t.fn('claim_tool_calls_for')}($1::text, $2::text, $3::text[], $4::int, $5::float8, $6::text[]) c`,
)

/**
 * Takes pending calls of one session, pending → executing, and renews the executor's lease. Calls that lack approvals,
 * and those whose function is in the agent's worker, are not offered.
 *
 * A crash after it leaves them to recovery when the lease has run out.
 *
 * @throws AiDbError INVALID_INPUT, NOT_MIGRATED, PERMISSION_DENIED, DATABASE_UNREACHABLE.
 */
export async function claimToolCallsFor(
  db: DrizzleDatabase,
  claim: ClaimToolCallsFor,
  options: DatabaseOptions = {},
): Promise<{ txid: number; toolCalls: ClaimedToolCall[] }> {
  const { sessionId, executorId, tools, toolCallIds, limit = 1, leaseMs = 30_000 } = claim
  requireId('sessionId', sessionId)
  requireId('executorId', executorId)
  for (const tool of tools) requireId('tools', tool)
  requirePositive('limit', limit)
  requirePositive('leaseMs', leaseMs)
  const [row] = await toQueryable(db, options).query(claimToolCallsForStatement, [
    sessionId,
    executorWorkerId(executorId),
    textArray(tools),
    limit,
    leaseMs,
    toolCallIds ? textArray(toolCallIds) : null,
  ])
  return { txid: Number(row!.txid), toolCalls: row!.calls }
}

export function requirePositive(field: string, value: number): void {
  if (Number.isInteger(value) && value > 0 && value <= 2_147_483_647) return
  throw new AiDbError(
    'INVALID_INPUT',
    `${field} must be a whole number above 0, got ${String(value)}.`,
    { field },
  )
}
