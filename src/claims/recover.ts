/**
 * Recover: what a dead worker held goes back to pending, or to failed when it made no progress for too
 * many attempts. Every worker does this; it needs no identity of the dead one and no code version.
 *
 * A worker is dead when its lease ran out, or when somebody saw its connection end (`dead`). Deleting its
 * row and releasing its work is one statement: a worker that was only paused finds its lease gone and its
 * attempts fenced.
 */
import type { Database } from '../internal/database.js'
import { statement, textArray, type TableNames } from '../internal/statement.js'

export interface Recovered {
  workers: string[]
  generations: { id: string; status: 'pending' | 'failed' }[]
  toolCalls: { id: string; status: 'pending' | 'failed' }[]
}

const GAVE_UP =
  "'gave up after ' || $N || ' attempts without progress: its worker died or lost its lease each time'"

// `orphan` catches rows whose worker row is gone for another reason (psql, a restored backup). A row that was
// claimed after this transaction began is none: its worker may be too young for this statement's snapshot.
const lost = (t: TableNames, alias: string) => `
  ${alias}.worker_id is not null and (${alias}.worker_id in (select id from dead)
    or ${alias}.updated_at < now() and not exists (select 1 from ${t.workers} w where w.id = ${alias}.worker_id))`

// Lock order: generation, then tool call (a call that fails here may resume its generation). SKIP LOCKED: what
// somebody is writing right now is found by the next round.
export const recoverStatement = statement<[dead: string], Recovered>(
  'recover',
  (t) => `
  with dead as (
    delete from ${t.workers} w where w.lease_expires_at < now() or w.id = any ($1::text[]) returning w.id),
  lost as materialized (
    select g.id from ${t.generations} g
     where g.status = 'generating' and ${lost(t, 'g')}
     order by g.id for no key update skip locked),
  askers as materialized (
    select g.id from ${t.generations} g
     where g.id in (select c.generation_id from ${t.toolCalls} c where c.status = 'executing' and ${lost(t, 'c')})
     order by g.id for no key update skip locked),
  lost_calls as materialized (
    select c.id from ${t.toolCalls} c join askers on askers.id = c.generation_id
     where c.status = 'executing' and ${lost(t, 'c')}
     order by c.id for no key update of c skip locked),
  calls as (
    update ${t.toolCalls} c set
      status = case when c.attempt >= c.max_attempts then 'failed' else 'pending' end,
      error = case when c.attempt >= c.max_attempts then ${GAVE_UP.replace('$N', 'c.attempt')} end,
      completed_at = case when c.attempt >= c.max_attempts then now() end
    from lost_calls where c.id = lost_calls.id
    returning c.id, c.status),
  turns as (
    update ${t.generations} g set
      status = case when g.attempts_without_progress >= g.max_attempts then 'failed' else 'pending' end,
      error = case when g.attempts_without_progress >= g.max_attempts
        then ${GAVE_UP.replace('$N', 'g.attempts_without_progress')} end,
      completed_at = case when g.attempts_without_progress >= g.max_attempts then now() end,
      run_at = now()
    from lost where g.id = lost.id and (select count(*) from calls) >= 0
    returning g.id, g.status)
  select coalesce((select jsonb_agg(id) from dead), '[]') as workers,
    coalesce((select jsonb_agg(jsonb_build_object('id', id, 'status', status)) from turns), '[]') as generations,
    coalesce((select jsonb_agg(jsonb_build_object('id', id, 'status', status)) from calls), '[]') as "toolCalls"`,
)

/**
 * Declares workers dead and gives their work back.
 *
 * @param dead ids whose connection was seen to end; expired leases are found in any case.
 */
export async function recoverWorkers(
  db: Database,
  dead: readonly string[] = [],
): Promise<Recovered> {
  const [row] = await db.query(recoverStatement, [textArray(dead)])
  return row ?? { workers: [], generations: [], toolCalls: [] }
}

export const expireStatement = statement<[], { expired: number; woken: number }>(
  'expire',
  (t) => `
  with askers as materialized (
    select g.id from ${t.generations} g
     where g.id in (select c.generation_id from ${t.toolCalls} c where c.status = 'pending' and c.expires_at < now())
     order by g.id for no key update skip locked),
  late as (
    update ${t.toolCalls} c set
      status = 'failed', completed_at = now(),
      error = case when c.approvals_required > 0 and c.approved_at is null then 'nobody approved it in time'
        else 'nobody executed it in time: no process serves this tool, or all were busy' end
    from askers where c.generation_id = askers.id and c.status = 'pending' and c.expires_at < now() returning c.id),
  timers as materialized (
    select g.id from ${t.generations} g
     where g.status = 'waiting' and g.wait_reason = 'timer' and g.run_at <= now()
     order by g.id for no key update skip locked),
  due as (
    update ${t.generations} g set status = 'pending', wait_reason = null
    from timers where g.id = timers.id returning g.id)
  select (select count(*)::int from late) as expired, (select count(*)::int from due) as woken`,
)

/** Fails calls nobody approved or executed in time, and wakes generations whose timer is due. */
export async function expireWaits(db: Database): Promise<{ expired: number; woken: number }> {
  const [row] = await db.query(expireStatement, [])
  return row ?? { expired: 0, woken: 0 }
}
