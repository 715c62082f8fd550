/**
 * The lease of a runner and its checkpoints: any number of processes, one holder. The lease is the runner's row of
 * the empty source in `checkpoints`: its attempt is the fence, which every claim raises and no statement lowers.
 *
 * A lease that ran out is still the holder's until somebody claims: then the holder is fenced. All times are the
 * database's.
 */
import { regressed } from '../contract/advance-checkpoints.js'
import { FencedError } from '../errors.js'
import type { CheckpointContract } from '../contract/lifecycle.js'
import type { Database } from '../internal/database.js'
import { statement, textArray } from '../internal/statement.js'

// Competitors for a new runner meet in the unique index, for a known one in its row; either way the loser looks
// again at what the winner committed.
export const claimRunnerStatement = statement<
  [runnerId: string, wakeId: string, leaseMs: number],
  { attempt: number }
>(
  'claim_runner',
  (t) => `
  insert into ${t.checkpoints} as c (runner_id, source, cursor, attempt, lease_expires_at)
  values ($1::text, '', $2::text, 1, now() + $3::float8 * interval '1 millisecond')
  on conflict (runner_id, source) do update set
    attempt = c.attempt + 1, cursor = excluded.cursor, lease_expires_at = excluded.lease_expires_at, updated_at = now()
    where case when c.lease_expires_at is null then $2::text = '' or c.cursor <> $2::text
      else c.lease_expires_at <= now() end
  returning c.attempt`,
)

/**
 * @param wakeId '' for a wake without a name.
 * @returns the fence, or null when the runner is held, or this was the last wake it completed.
 */
export async function claimRunner(
  db: Database,
  runnerId: string,
  wakeId: string,
  leaseMs: number,
): Promise<number | null> {
  const [row] = await db.query(claimRunnerStatement, [runnerId, wakeId, leaseMs])
  return row?.attempt ?? null
}

export const renewRunnerStatement = statement<
  [runnerId: string, attempt: number, leaseMs: number],
  { attempt: number }
>(
  'renew_runner',
  (t) => `
  update ${t.checkpoints} set lease_expires_at = now() + $3::float8 * interval '1 millisecond', updated_at = now()
   where runner_id = $1::text and source = '' and attempt = $2::int and lease_expires_at is not null
  returning attempt`,
)

/** @throws FencedError when the runner is no longer held at this attempt. */
export async function renewRunner(
  db: Database,
  runnerId: string,
  attempt: number,
  leaseMs: number,
): Promise<void> {
  const rows = await db.query(renewRunnerStatement, [runnerId, attempt, leaseMs])
  if (rows.length === 0) throw fenced(runnerId, attempt)
}

export const releaseRunnerStatement = statement<
  [runnerId: string, attempt: number, done: boolean],
  { attempt: number }
>(
  'release_runner',
  (t) => `
  update ${t.checkpoints} set
    lease_expires_at = null, cursor = case when $3::boolean then cursor else '' end, updated_at = now()
   where runner_id = $1::text and source = '' and attempt = $2::int and lease_expires_at is not null
  returning attempt`,
)

/**
 * @param done false: its wake may come again.
 * @throws FencedError when the runner is no longer held at this attempt.
 */
export async function releaseRunner(
  db: Database,
  runnerId: string,
  attempt: number,
  done: boolean,
): Promise<void> {
  const rows = await db.query(releaseRunnerStatement, [runnerId, attempt, done])
  if (rows.length === 0) throw fenced(runnerId, attempt)
}

// `stale` sees what was committed when the statement began. Of two calls of one holder at once the later waits in
// `held` and may be judged by an old row: then the trigger refuses the statement as a whole.
export const recordCheckpointsStatement = statement<
  [runnerId: string, attempt: number, sources: string, cursors: string],
  { held: boolean; source: string | null; cursor: string | null; recorded: string | null }
>(
  'record_checkpoints',
  (t) => `
  with held as materialized (
    select 1 from ${t.checkpoints}
     where runner_id = $1::text and source = '' and attempt = $2::int and lease_expires_at is not null for no key update),
  given as materialized (
    select g.source, g.cursor from unnest($3::text[], $4::text[]) as g (source, cursor)),
  stale as materialized (
    select g.source, g.cursor, c.cursor as recorded from given g
      join ${t.checkpoints} c on c.runner_id = $1::text and c.source = g.source
     where ${t.fn('cursor_precedes')}(g.cursor, c.cursor)),
  written as (
    insert into ${t.checkpoints} (runner_id, source, cursor, attempt)
    select $1::text, g.source, g.cursor, $2::int from held, given g
     where not exists (select from stale)
     order by g.source
    on conflict (runner_id, source) do update set
      cursor = excluded.cursor, attempt = excluded.attempt, updated_at = now())
  select exists (select from held) as held, s.source, s.cursor, s.recorded
    from (select 1) one left join (select * from stale limit 1) s on true`,
)

/**
 * All of them, or none.
 *
 * @throws FencedError when the runner is no longer held at this attempt;
 *   AiDbError CHECKPOINT_REGRESSED when one comes before what is recorded.
 */
export async function recordCheckpoints(
  db: Database,
  runnerId: string,
  attempt: number,
  checkpoints: readonly CheckpointContract[],
): Promise<void> {
  // One row a source: two in one statement would meet in the same row.
  const last = new Map(checkpoints.map((one) => [one.source, one.cursor]))
  if (last.size === 0) return
  const [row] = await db.query(recordCheckpointsStatement, [
    runnerId,
    attempt,
    textArray([...last.keys()]),
    textArray([...last.values()]),
  ])
  if (!row!.held) throw fenced(runnerId, attempt)
  if (row!.source === null) return
  throw regressed(row!.source, row!.cursor!, row!.recorded!)
}

export const readCheckpointsStatement = statement<[runnerId: string], CheckpointContract>(
  'read_checkpoints',
  (t) => `
  select source, cursor from ${t.checkpoints} where runner_id = $1::text and source <> '' order by source`,
)

/** Every source of the runner that has a checkpoint. */
export function readCheckpoints(db: Database, runnerId: string): Promise<CheckpointContract[]> {
  return db.query(readCheckpointsStatement, [runnerId])
}

export const forgetCheckpointStatement = statement<
  [runnerId: string, source: string],
  { source: string }
>(
  'forget_checkpoint',
  (t) => `
  delete from ${t.checkpoints} where runner_id = $1::text and source = $2::text and source <> '' returning source`,
)

/** The source is read from its beginning again. @returns whether there was a checkpoint. */
export async function forgetCheckpoint(
  db: Database,
  runnerId: string,
  source: string,
): Promise<boolean> {
  return (await db.query(forgetCheckpointStatement, [runnerId, source])).length > 0
}

const fenced = (runnerId: string, attempt: number) => new FencedError(`Runner ${runnerId}`, attempt)
