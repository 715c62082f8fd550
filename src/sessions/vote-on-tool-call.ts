/**
 * Approve and deny: a person's vote on a tool call that needs consent. The vote is a row, appended and never
 * changed, bound to the hash of the arguments the person saw; what it does to the call is the business of the
 * triggers in migrations/0005_approvals.sql, so a vote by plain SQL does the same.
 */
import type { ToolCallStatus } from '../contract/status.js'
import { toQueryable, type DatabaseOptions, type DrizzleDatabase } from '../internal/database.js'
import { statement, storableText } from '../internal/statement.js'
import { requireId, requireText } from './input.js'

export interface ToolCallVote {
  sessionId: string
  toolCallId: string
  /** The vote's own id: repeating a vote by its id answers like the first time. @default a random UUID */
  id?: string
  /** Who votes. One vote an actor. */
  actorId: string
  /** The call's `argsHash` as it was shown. */
  argsHash: string
  reason?: string
}

export interface VoteResult {
  txid: number
  /** The call's status after the vote: `pending` until all approvals are there and somebody runs it. */
  status: ToolCallStatus
}

type Params = [
  sessionId: string,
  toolCallId: string,
  id: string,
  actorId: string,
  argsHash: string,
  vote: 'approved' | 'denied',
  reason: string | null,
]

export const voteStatement = statement<Params, { status: ToolCallStatus; txid: string }>(
  'vote_on_tool_call',
  (t) => `
  select ${t.fn('vote_on_tool_call')}($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text) as status,
    pg_current_xact_id()::xid::text as txid`,
)

/**
 * Approves a tool call's arguments. The vote that completes the quorum lets it run: executors of the tool are
 * rung, and a generation that waits for it becomes `pending` again, for any worker.
 *
 * A crash after it changes nothing: the vote is a row. The same actor approving again is a repeat.
 *
 * @throws AiDbError NOT_FOUND (also for a call of another session), STALE_APPROVAL when the call has other arguments
 *   than those of `argsHash`, ILLEGAL_TRANSITION when it is no longer pending, needs no approval, or the actor has
 *   denied it, DUPLICATE_ID, INVALID_INPUT, NOT_MIGRATED, PERMISSION_DENIED, DATABASE_UNREACHABLE.
 */
export function approveToolCall(
  db: DrizzleDatabase,
  vote: ToolCallVote,
  options: DatabaseOptions = {},
): Promise<VoteResult> {
  return cast(db, vote, 'approved', options)
}

/**
 * Denies a tool call: pending → failed, with `denied by <actor>: <reason>` as its error, which the model is told like
 * any failure. One denial is enough, whatever approvals there are.
 *
 * @throws AiDbError as `approveToolCall`.
 */
export function denyToolCall(
  db: DrizzleDatabase,
  vote: ToolCallVote,
  options: DatabaseOptions = {},
): Promise<VoteResult> {
  return cast(db, vote, 'denied', options)
}

async function cast(
  db: DrizzleDatabase,
  vote: ToolCallVote,
  action: 'approved' | 'denied',
  options: DatabaseOptions,
): Promise<VoteResult> {
  const { sessionId, toolCallId, id = crypto.randomUUID(), actorId, argsHash, reason } = vote
  for (const [field, value] of Object.entries({ sessionId, id, actorId, argsHash })) {
    requireId(field, value)
  }
  requireText('toolCallId', toolCallId, 1600)
  if (reason !== undefined) requireText('reason', reason, 8000)
  const [row] = await toQueryable(db, options).query(voteStatement, [
    ...([sessionId, toolCallId, id, actorId, argsHash, action] as const),
    reason === undefined ? null : storableText(reason),
  ])
  return { txid: Number(row!.txid), status: row!.status }
}
