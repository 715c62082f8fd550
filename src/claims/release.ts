/**
 * Release: a worker gives back what it holds without finishing it: after an error with retries left, at
 * shutdown, or because the generation would only wait.
 */
import { FencedError } from '../errors.js'
import type { Database } from '../internal/database.js'
import { statement, storableText, textArray } from '../internal/statement.js'
import type { WaitReason } from '../contract/status.js'

export interface Release {
  generationId: string
  attempt: number
  /** Why: shown on the row if this was the last attempt. Absent: put down on purpose, which costs no attempt. */
  error?: string | undefined
  /** Not claimed again for so many ms. @default 0 */
  delayMs?: number
  /** False: retrying would not help; fail at once. @default true */
  retryable?: boolean
}

// Calls that this run was executing go back with it; they are recovered under their own attempts.
export const releaseGenerationStatement = statement<
  [
    generationId: string,
    attempt: number,
    error: string | null,
    delayMs: number,
    retryable: boolean,
  ],
  { status: 'pending' | 'failed' }
>(
  'release_generation',
  (t) => `
  with held as materialized (
    select id, worker_id from ${t.generations}
     where id = $1::text and attempt = $2::int and status = 'generating' for no key update),
  calls as (
    update ${t.toolCalls} c set status = 'pending' from held
     where c.generation_id = held.id and c.status = 'executing' and c.worker_id = held.worker_id)
  update ${t.generations} g set
    status = case when $3::text is not null and (not $5::boolean or g.attempts_without_progress >= g.max_attempts)
      then 'failed' else 'pending' end,
    error = $3::text,
    completed_at = case when $3::text is not null and (not $5::boolean or g.attempts_without_progress >= g.max_attempts)
      then now() end,
    run_at = now() + $4::float8 * interval '1 millisecond',
    attempts_without_progress = case when $3::text is null
      then greatest(g.attempts_without_progress - 1, 0) else g.attempts_without_progress end
  from held where g.id = held.id
  returning g.status`,
)

/**
 * generating → pending, or → failed when `error` was the last attempt's.
 *
 * @throws FencedError when the generation is no longer held at this attempt.
 */
export async function releaseGeneration(
  db: Database,
  release: Release,
): Promise<'pending' | 'failed'> {
  const [row] = await db.query(releaseGenerationStatement, [
    release.generationId,
    release.attempt,
    release.error === undefined ? null : storableText(release.error),
    release.delayMs ?? 0,
    release.retryable ?? true,
  ])
  if (!row) throw new FencedError(`Generation ${release.generationId}`, release.attempt)
  return row.status
}

export const putDownGenerationStatement = statement<
  [generationId: string, attempt: number, reason: WaitReason, gated: string],
  { down: boolean | null }
>(
  'put_down_generation',
  (t) => `select ${t.fn('put_down_generation')}($1::text, $2::int, $3::text, $4::text[]) as down`,
)

/**
 * generating → waiting, if something it asked for is still unsettled. Reason `tools` is written as `approval` when
 * nothing but approvals is missing.
 *
 * @param gated calls that this worker runs itself once they are approved.
 * @returns false when everything has settled meanwhile, or one of `gated` was approved: go on.
 * @throws FencedError when the generation is no longer held at this attempt.
 */
export async function putDownGeneration(
  db: Database,
  generationId: string,
  attempt: number,
  reason: WaitReason,
  gated: readonly string[] = [],
): Promise<boolean> {
  const [row] = await db.query(putDownGenerationStatement, [
    generationId,
    attempt,
    reason,
    textArray(gated),
  ])
  if (row?.down == null) throw new FencedError(`Generation ${generationId}`, attempt)
  return row.down
}

export const releaseToolCallsStatement = statement<[ids: string, workerId: string], { id: string }>(
  'release_tool_calls',
  (t) => `
  update ${t.toolCalls} set status = 'pending'
   where id = any ($1::text[]) and worker_id = $2::text and status = 'executing' returning id`,
)

/** executing → pending for calls this worker holds: what an executor does at shutdown. */
export async function releaseToolCalls(
  db: Database,
  ids: readonly string[],
  workerId: string,
): Promise<void> {
  if (ids.length > 0) await db.query(releaseToolCallsStatement, [textArray(ids), workerId])
}

export const releaseUnreportedCallsStatement = statement<
  [generationId: string, attempt: number, workerId: string],
  { id: string }
>(
  'release_unreported_calls',
  (t) => `
  with held as materialized (
    select id from ${t.generations}
     where id = $1::text and attempt = $2::int and status = 'generating' for no key update)
  update ${t.toolCalls} c set status = 'pending' from held
   where c.generation_id = held.id and c.worker_id = $3::text and c.status = 'executing' returning c.id`,
)

/** executing → pending for a generation's calls that this worker holds and no longer runs: their result was lost. */
export async function releaseUnreportedCalls(
  db: Database,
  generationId: string,
  attempt: number,
  workerId: string,
): Promise<void> {
  await db.query(releaseUnreportedCallsStatement, [generationId, attempt, workerId])
}
