/** Settle: the result of a call that an executor without a database connection ran. See claim-tool-calls-for.ts. */
import { FencedError } from '../errors.js'
import { toQueryable, type DatabaseOptions, type DrizzleDatabase } from '../internal/database.js'
import { statement, storableText } from '../internal/statement.js'
import { executorWorkerId, requirePositive } from './claim-tool-calls-for.js'
import { requireContent, requireId, requireJson, requireText } from './input.js'

export interface SettleToolCallFor {
  sessionId: string
  toolCallId: string
  executorId: string
  /** The attempt of the claim: the fence. */
  attempt: number
  outcome: { status: 'completed'; result?: unknown } | { status: 'failed'; error: string }
}

/** The longest result or error, in bytes of JSON. */
const MAX_RESULT_BYTES = 1_048_576

export const settleToolCallForStatement = statement<
  [
    sessionId: string,
    toolCallId: string,
    workerId: string,
    attempt: number,
    status: string,
    result: string | null,
    error: string | null,
  ],
  { outcome: 'settled' | 'repeated' | 'fenced'; txid: string }
>(
  'settle_tool_call_for',
  (t) => `
  select ${t.fn('settle_tool_call_for')}($1::text, $2::text, $3::text, $4::int, $5::text, $6::text::jsonb, $7::text) as outcome,
    pg_current_xact_id()::xid::text as txid`,
)

/**
 * executing → completed | failed. The transaction that settles the last call a generation waits for makes it pending
 * again. A repeat answers like the first time.
 *
 * @throws FencedError when the executor no longer holds the call at this attempt: its lease ran out, or it was cancelled.
 * @throws AiDbError NOT_FOUND (also for a call of another session), INVALID_INPUT, NOT_MIGRATED, PERMISSION_DENIED,
 *   DATABASE_UNREACHABLE.
 */
export async function settleToolCallFor(
  db: DrizzleDatabase,
  settlement: SettleToolCallFor,
  options: DatabaseOptions = {},
): Promise<{ txid: number; repeated: boolean }> {
  const { sessionId, toolCallId, executorId, attempt, outcome } = settlement
  requireId('sessionId', sessionId)
  requireText('toolCallId', toolCallId, 1600)
  requireId('executorId', executorId)
  requirePositive('attempt', attempt)
  const [row] = await toQueryable(db, options).query(settleToolCallForStatement, [
    sessionId,
    toolCallId,
    executorWorkerId(executorId),
    attempt,
    outcome.status,
    outcome.status === 'completed' ? resultText(outcome.result) : null,
    outcome.status === 'failed' ? errorText(outcome.error) : null,
  ])
  if (row!.outcome === 'fenced') throw new FencedError(`Tool call ${toolCallId}`, attempt)
  return { txid: Number(row!.txid), repeated: row!.outcome === 'repeated' }
}

function resultText(result: unknown): string {
  const text = requireJson('outcome.result', result)
  requireText('outcome.result', text, MAX_RESULT_BYTES)
  return text
}

function errorText(error: string): string {
  requireContent('outcome.error', error, MAX_RESULT_BYTES)
  return storableText(error)
}
