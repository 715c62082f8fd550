/**
 * Workers: one lease row per worker covers everything it holds, so heartbeats cost O(workers) writes and
 * touch no row a client syncs. All times are the database's.
 */
import type { Database } from '../internal/database.js'
import { statement, textArray } from '../internal/statement.js'

export interface WorkerRow {
  id: string
  name: string
  agents: readonly string[]
  tools: readonly string[]
  slots: number
  /** Does a session-level advisory lock stand for its life? */
  locked: boolean
  leaseMs: number
  version: string
}

export const registerWorkerStatement = statement<
  [
    id: string,
    name: string,
    agents: string,
    tools: string,
    slots: number,
    locked: boolean,
    leaseMs: number,
    version: string,
  ],
  { id: string }
>(
  'register_worker',
  (t) => `
  insert into ${t.workers} (id, name, agents, tools, slots, locked, lease_expires_at, version)
  values ($1::text, $2::text, $3::text[], $4::text[], $5::int, $6::boolean,
    now() + $7::float8 * interval '1 millisecond', $8::text)
  returning id`,
)

/** Makes the worker known: from here on it may claim. */
export async function registerWorker(db: Database, worker: WorkerRow): Promise<void> {
  await db.query(registerWorkerStatement, [
    worker.id,
    worker.name,
    textArray(worker.agents),
    textArray(worker.tools),
    worker.slots,
    worker.locked,
    worker.leaseMs,
    worker.version,
  ])
}

export const renewLeaseStatement = statement<
  [id: string, leaseMs: number, locked: boolean],
  { id: string }
>(
  'renew_lease',
  (t) => `
  update ${t.workers} set
    lease_expires_at = now() + $2::float8 * interval '1 millisecond', locked = $3::boolean
  where id = $1::text returning id`,
)

/** Extends the lease. @returns false when it was lost: another worker has recovered everything it held. */
export async function renewLease(
  db: Database,
  id: string,
  leaseMs: number,
  locked: boolean,
): Promise<boolean> {
  return (await db.query(renewLeaseStatement, [id, leaseMs, locked])).length > 0
}

export const deregisterWorkerStatement = statement<[id: string], { id: string }>(
  'deregister_worker',
  (t) => `delete from ${t.workers} where id = $1::text returning id`,
)

/** Forgets the worker. What it still held is recovered by the next recovery round. */
export async function deregisterWorker(db: Database, id: string): Promise<void> {
  await db.query(deregisterWorkerStatement, [id])
}

export const setSleepingStatement = statement<[id: string, sleeping: boolean], { id: string }>(
  'set_sleeping',
  (t) => `update ${t.workers} set sleeping = $2::boolean where id = $1::text returning id`,
)

/** Tells enqueueing transactions whether to ring. */
export async function setSleeping(db: Database, id: string, sleeping: boolean): Promise<void> {
  await db.query(setSleepingStatement, [id, sleeping])
}

export const nextRunStatement = statement<[id: string], { ms: number | null }>(
  'next_run',
  (t) => `
  select extract(epoch from min(next.run_at) - now())::float8 * 1000 as ms from (
    (select g.run_at from ${t.generations} g, ${t.workers} me
      where me.id = $1::text and g.status = 'pending' and g.run_at > g.created_at and g.run_at > now() and g.agent_name = any (me.agents)
      order by g.run_at limit 1)
    union all
    (select c.run_at from ${t.toolCalls} c, ${t.workers} me
      where me.id = $1::text and c.status = 'pending' and c.run_at > c.created_at and c.run_at > now() and c.name = any (me.tools)
      order by c.run_at limit 1)) next`,
)

/** How many ms until the next row this worker may claim falls due (a retry's delay, say); null without one. */
export async function nextRunMs(db: Database, id: string): Promise<number | null> {
  const [row] = await db.query(nextRunStatement, [id])
  return row?.ms ?? null
}

// The barrier is an id of its own, not the snapshot's xmax: that is one more than the newest id that has ended,
// and a transaction that is running may have it, or a higher one.
export const barrierStatement = statement<
  [barrier: string | null],
  { barrier: string; passed: boolean }
>(
  'barrier',
  () => `
  select coalesce($1::text, pg_current_xact_id()::text) as barrier,
    pg_snapshot_xmin(s) >= coalesce($1::text::xid8, pg_current_xact_id()) as passed
  from pg_current_snapshot() s`,
)

/**
 * Have all transactions ended that had begun to write when the barrier was made? Without a barrier,
 * makes one now. Read-only transactions hold nothing up.
 */
export async function checkBarrier(
  db: Database,
  barrier: string | null,
): Promise<{ barrier: string; passed: boolean }> {
  const [row] = await db.query(barrierStatement, [barrier])
  return row!
}

export const listWorkersStatement = statement<[], { id: string; locked: boolean }>(
  'list_workers',
  (t) => `select id, locked from ${t.workers} where lease_expires_at > now() order by id`,
)

/** Every worker with a live lease, in the order of the watch ring. */
export function listWorkers(db: Database): Promise<{ id: string; locked: boolean }[]> {
  return db.query(listWorkersStatement, [])
}

export const checkHeldStatement = statement<[ids: string], { id: string }>(
  'check_held',
  (t) => `select id from ${t.generations} where id = any ($1::text[]) and status = 'cancelled'`,
)

/** Of these generations, those that were cancelled. */
export async function checkHeld(db: Database, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return []
  return (await db.query(checkHeldStatement, [textArray(ids)])).map((row) => row.id)
}

export const checkHeldToolCallsStatement = statement<[ids: string], { id: string }>(
  'check_held_tool_calls',
  (t) => `select id from ${t.toolCalls} where id = any ($1::text[]) and status = 'cancelled'`,
)

/** Of these tool calls, those that were cancelled. */
export async function checkHeldToolCalls(db: Database, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return []
  return (await db.query(checkHeldToolCallsStatement, [textArray(ids)])).map((row) => row.id)
}
