/**
 * Settle of tool calls: results are rows the moment they exist, never buffered with text. The trigger
 * tool_calls_settled makes a generation that waited for the last of them pending again.
 */
import { FencedError } from '../errors.js'
import type { Database } from '../internal/database.js'
import { jsonText, statement, storableText } from '../internal/statement.js'

export type ToolOutcome =
  { status: 'completed'; result: unknown } | { status: 'failed'; error: string }

export interface ToolCallSettlement {
  id: string
  attempt: number
  outcome: ToolOutcome
}

// The generation's row is locked first, as every writer does (lock order: generation, then tool call).
// Arrays of ids, because they are looked up by key; a join with `given`, which the planner takes for a
// hundred rows, reads both tables whole.
export const settleToolCallsStatement = statement<[settlements: string], { id: string }>(
  'settle_tool_calls',
  (t) => `
  with given as (
    select * from jsonb_to_recordset($1::text::jsonb) as s (id text, attempt int, status text, result jsonb, error text)),
  held as materialized (
    select g.id from ${t.generations} g
     where g.id = any (array(
       select c.generation_id from ${t.toolCalls} c where c.id = any (array(select id from given))))
     order by g.id for no key update)
  update ${t.toolCalls} c set
    status = given.status, result = given.result, error = given.error, completed_at = now()
  from given, held
  where c.id = any (array(select id from given)) and c.id = given.id and c.attempt = given.attempt and c.status = 'executing' and held.id = c.generation_id
  returning c.id`,
)

// One call, the usual case: by its key, without the joins of a list.
export const settleToolCallStatement = statement<
  [id: string, attempt: number, status: string, result: string | null, error: string | null],
  { id: string }
>(
  'settle_tool_call',
  (t) => `
  with held as materialized (
    select g.id from ${t.generations} g
     where g.id = (select c.generation_id from ${t.toolCalls} c where c.id = $1::text)
     for no key update)
  update ${t.toolCalls} c set
    status = $3::text, result = $4::text::jsonb, error = $5::text, completed_at = now()
  where c.id = $1::text and c.attempt = $2::int and c.status = 'executing'
    and c.generation_id = (select id from held)
  returning c.id`,
)

/**
 * Ends tool calls, executing → completed | failed, each under its own fence.
 *
 * @returns the ids that were settled; a missing one was fenced (claimed again, cancelled or settled).
 */
export async function settleToolCalls(
  db: Database,
  settlements: readonly ToolCallSettlement[],
): Promise<string[]> {
  const [first] = settlements
  if (first && settlements.length === 1) return settleOne(db, first)
  const given = settlements.map(({ id, attempt, outcome }) => ({
    id,
    attempt,
    status: outcome.status,
    result: outcome.status === 'completed' ? (outcome.result ?? null) : undefined,
    error: outcome.status === 'failed' ? outcome.error : undefined,
  }))
  const rows = await db.query(settleToolCallsStatement, [jsonText(given)])
  return rows.map((row) => row.id)
}

async function settleOne(
  db: Database,
  { id, attempt, outcome }: ToolCallSettlement,
): Promise<string[]> {
  const result = outcome.status === 'completed' ? (outcome.result ?? null) : null
  const rows = await db.query(settleToolCallStatement, [
    id,
    attempt,
    outcome.status,
    result === null ? null : jsonText(result),
    outcome.status === 'failed' ? storableText(outcome.error) : null,
  ])
  return rows.map((row) => row.id)
}

/** Ends one tool call. @throws FencedError when it is no longer held at this attempt. */
export async function settleToolCall(db: Database, settlement: ToolCallSettlement): Promise<void> {
  const settled = await settleToolCalls(db, [settlement])
  if (settled.length === 0) throw new FencedError(`Tool call ${settlement.id}`, settlement.attempt)
}
