/**
 * Claim of tool calls: by name for an executor, by id for the generation's own worker.
 *
 * A call that lacks approvals is not claimable, nor one whose generation has ended, nor, by name, one that only a
 * worker of its agent may run.
 */
import type { Database } from '../internal/database.js'
import { statement, textArray, type TableNames } from '../internal/statement.js'

export interface ClaimedToolCall {
  /** Idempotency key of the tool: the same for every attempt. */
  id: string
  generationId: string
  sessionId: string
  step: number
  index: number
  name: string
  args: unknown
  /** The fence of this claim; greater than 1 means an earlier execution did not report. */
  attempt: number
  maxAttempts: number
  timeoutMs: number | null
}

export interface ClaimToolCallsOptions {
  workerId: string
  /** The tools this executor has. */
  tools: readonly string[]
  limit: number
}

const approved = '(c.approvals_required = 0 or c.approved_at is not null)'

const take = (t: TableNames, workerId: string) => `
  update ${t.toolCalls} c set
    status = 'executing', attempt = c.attempt + 1, worker_id = ${workerId},
    started_at = coalesce(c.started_at, now())
  from candidate where c.id = candidate.id
  returning c.id, c.generation_id as "generationId", c.session_id as "sessionId", c.step, c.index, c.name,
    c.args, c.attempt, c.max_attempts as "maxAttempts", c.timeout_ms as "timeoutMs"`

export const claimToolCallsStatement = statement<
  [tools: string, limit: number, workerId: string],
  ClaimedToolCall
>(
  'claim_tool_calls',
  (t) => `
  with candidate as (
    select c.id from ${t.toolCalls} c
     where c.status = 'pending' and c.run_at <= now() and c.name = any ($1::text[])
       and not c.worker_only and ${approved}
     order by c.priority desc nulls last, c.run_at, c.id
     limit $2::int
     for update skip locked)
  ${take(t, '$3::text')}`,
)

// `locked`: free to take, but somebody has the row's lock just now, and what they do may change nothing. Of a
// generation's own worker nothing is asked that its own rows need not have.
export const claimOwnToolCallsStatement = statement<
  [ids: string, workerId: string, own: boolean],
  ClaimedToolCall & { locked: boolean }
>(
  'claim_own_tool_calls',
  (t) => `
  with candidate as (
    select c.id from ${t.toolCalls} c
     where c.id = any ($1::text[]) and c.status = 'pending' and ${approved}
       and ($3::boolean or not c.worker_only and c.run_at <= now())
     for update skip locked),
  taken as (${take(t, '$2::text')})
  select taken.*, false as locked from taken
  union all
  select c.id, c.generation_id, c.session_id, c.step, c.index, c.name, c.args, c.attempt, c.max_attempts, c.timeout_ms, true
    from ${t.toolCalls} c
   where not $3::boolean and c.id = any ($1::text[]) and c.status = 'pending' and ${approved} and not c.worker_only
     and not exists (select 1 from candidate where candidate.id = c.id)`,
)

/** Takes up to `limit` pending calls of the given tools, by priority, then age. Moves them pending → executing. */
export function claimToolCalls(
  db: Database,
  options: ClaimToolCallsOptions,
): Promise<ClaimedToolCall[]> {
  if (options.tools.length === 0 || options.limit < 1) return Promise.resolve([])
  return db.query(claimToolCallsStatement, [
    textArray(options.tools),
    options.limit,
    options.workerId,
  ])
}

/** Takes these calls if nobody else has: what a picked-up generation does with its own unfinished ones. */
export function claimOwnToolCalls(
  db: Database,
  ids: readonly string[],
  workerId: string,
): Promise<ClaimedToolCall[]> {
  return db.query(claimOwnToolCallsStatement, [textArray(ids), workerId, true])
}

/**
 * Takes these calls, for any executor: not those that only their agent's workers may run.
 *
 * @returns what was taken, and the ids that were not but may be soon (locked just now, or not due yet).
 */
export async function claimToolCallsById(
  db: Database,
  ids: readonly string[],
  workerId: string,
): Promise<{ claimed: ClaimedToolCall[]; later: string[] }> {
  if (ids.length === 0) return { claimed: [], later: [] }
  const rows = await db.query(claimOwnToolCallsStatement, [textArray(ids), workerId, false])
  const later = rows.filter(({ locked }) => locked).map(({ id }) => id)
  return { claimed: rows.filter(({ locked }) => !locked), later }
}
