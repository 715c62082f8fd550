/**
 * Lost claims: a claim that committed while its answer was lost with the connection. The rows are held by a worker
 * that lives and does not know of them, so nobody would ever recover them.
 */
import type { Database } from '../internal/database.js'
import { statement, textArray } from '../internal/statement.js'

// Like a put-down on purpose, it costs no attempt: nothing ran.
export const releaseLostGenerationsStatement = statement<
  [workerId: string, running: string],
  { id: string }
>(
  'release_lost_generations',
  (t) => `
  update ${t.generations} set
    status = 'pending', run_at = now(), attempts_without_progress = greatest(attempts_without_progress - 1, 0)
   where worker_id = $1::text and status = 'generating' and id <> all ($2::text[]) returning id`,
)

export const releaseLostToolCallsStatement = statement<
  [workerId: string, running: string],
  { id: string }
>(
  'release_lost_tool_calls',
  (t) => `
  update ${t.toolCalls} set status = 'pending'
   where worker_id = $1::text and status = 'executing' and id <> all ($2::text[]) returning id`,
)

/** generating → pending for what the worker holds and does not run. Only while none of its claims is under way. */
export async function releaseLostGenerations(
  db: Database,
  workerId: string,
  running: readonly string[],
): Promise<void> {
  await db.query(releaseLostGenerationsStatement, [workerId, textArray(running)])
}

/** executing → pending, likewise, for an executor. */
export async function releaseLostToolCalls(
  db: Database,
  workerId: string,
  running: readonly string[],
): Promise<void> {
  await db.query(releaseLostToolCallsStatement, [workerId, textArray(running)])
}
