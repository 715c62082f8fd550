/**
 * Claim: the one statement that takes pending generations for a worker.
 *
 * Many workers run it at once: SKIP LOCKED gives each different rows, and what it wrote is seen by all
 * before anything runs. It raises `attempt`, the fence of every later write. A queued generation waits
 * for its session's active one (decision 7); the unique index `generations_active_key` holds that even
 * if this statement were wrong.
 */
import { isUniqueViolation } from '../internal/database-errors.js'
import type { Database } from '../internal/database.js'
import { intArray, statement, textArray, type TableNames } from '../internal/statement.js'

export interface ClaimGenerationsOptions {
  workerId: string
  /** The agents this worker serves, each with its agent's `maxAttempts`. */
  agents: ReadonlyMap<string, number>
  /** At most so many. */
  limit: number
  /** At most so many generations at once per concurrency key, over all workers. @default no limit */
  concurrencyPerKey?: number | undefined
}

export interface ClaimedGeneration {
  id: string
  sessionId: string
  agentName: string
  /** The fence of this claim. */
  attempt: number
  attemptsWithoutProgress: number
  maxAttempts: number
  /** The model turn to go on with, from 0. */
  step: number
  /** The message ids it answers. */
  inbox: string[]
  /** Milliseconds from when it could have been claimed first to this claim, by the database's clock. */
  queuedMs: number
}

type Params = [agents: string, maxAttempts: string, limit: number, workerId: string]

/**
 * Rows another transaction holds are skipped, not waited for: the enqueue trigger locks a queued row
 * while a message is being added to its inbox. `nulls last` is how the claim index is ordered: without it,
 * although no priority is null, every claim sorts the whole backlog. The active generation is looked for with a
 * scalar subquery: "not exists" becomes a hash of everything that runs, in every claim.
 */
const candidates = (t: TableNames, extra = '') => `
  select g.ctid as place, g.id, g.concurrency_key
    from ${t.generations} g
   where g.status = 'pending' and g.run_at <= now() and g.agent_name = any ($1::text[])
     and (g.attempt > 0 or (
       select o.id from ${t.generations} o
        where o.session_id = g.session_id and o.agent_name = g.agent_name
          and o.attempt > 0 and o.status in ('pending', 'generating', 'waiting')) is null)
     ${extra}
   order by g.priority desc nulls last, g.run_at, g.id
   limit $3::int
   for update of g skip locked`

// The inbox is read in this statement's snapshot. A message that committed between that and the row
// lock is not in it; the trigger generations_finish gives it the next generation.
// Locked rows stay where they are, so they are updated there: by their ids, a plan that was made while the table
// was small reads all of it. (A row somebody changed just before the lock is left to the next claim: whoever
// changed it has rung.)
const take = (t: TableNames, slot: string, which: string) => `
  update ${t.generations} g set
    status = 'generating',
    attempt = g.attempt + 1,
    attempts_without_progress = g.attempts_without_progress + 1,
    max_attempts = ($2::int[])[array_position($1::text[], g.agent_name)],
    worker_id = $4::text,
    concurrency_slot = ${slot},
    started_at = coalesce(g.started_at, now()),
    inbox = case when g.attempt > 0 then g.inbox else coalesce((
      select jsonb_agg(m.id order by m.seq) from ${t.messages} m
       where m.session_id = g.session_id and m.target_agent = g.agent_name and not m.processed), '[]') end
  ${which}
  returning g.id, g.session_id as "sessionId", g.agent_name as "agentName", g.attempt,
    g.attempts_without_progress as "attemptsWithoutProgress", g.max_attempts as "maxAttempts", g.step, g.inbox,
    (extract(epoch from now() - greatest(g.run_at, g.created_at)) * 1000)::float8 as "queuedMs"`

export const claimGenerationsStatement = statement<Params, ClaimedGeneration>(
  'claim_generations',
  (t) =>
    `with candidate as (${candidates(t)}) ${take(t, 'null', 'where g.ctid = any (array(select place from candidate))')}`,
)

/**
 * With a limit per key, each running generation holds one of its key's numbered slots, and a unique
 * index on (key, slot) makes the limit a fact: two workers that pick the same slot cannot both commit.
 */
export const claimKeyedGenerationsStatement = statement<
  [...Params, perKey: number],
  ClaimedGeneration
>(
  'claim_keyed_generations',
  (t) => `
  with open as (${candidates(
    t,
    `and (g.concurrency_key is null or (
       select count(*) from ${t.generations} k
        where k.concurrency_key = g.concurrency_key and k.status = 'generating' and k.concurrency_slot is not null
       ) < $5::int)`,
  )}),
  ranked as (
    select place, id, concurrency_key, row_number() over (partition by concurrency_key order by id) as nth from open),
  candidate as (
    select r.place, r.id, s.slot from ranked r left join lateral (
      select n as slot, row_number() over (order by n) as nth
        from generate_series(1, $5::int) n
       where not exists (
         select 1 from ${t.generations} k
          where k.concurrency_key = r.concurrency_key and k.concurrency_slot = n and k.status = 'generating')
      ) s on s.nth = r.nth
     where r.concurrency_key is null or s.slot is not null)
  ${take(
    t,
    'case when g.concurrency_key is null then null else c.slot end',
    'from candidate c where g.ctid = any (array(select place from candidate)) and g.id = c.id',
  )}`,
)

/** How often a claim that collided with another on a slot is tried at once again. */
const SLOT_RETRIES = 3

/**
 * Takes up to `limit` generations, by priority, then age. Moves them pending → generating.
 *
 * A crash after it leaves the rows to recovery (`recoverWorkers`).
 */
export async function claimGenerations(
  db: Database,
  options: ClaimGenerationsOptions,
): Promise<ClaimedGeneration[]> {
  const names = [...options.agents.keys()]
  if (names.length === 0 || options.limit < 1) return []
  const params: Params = [
    textArray(names),
    intArray([...options.agents.values()]),
    options.limit,
    options.workerId,
  ]
  if (options.concurrencyPerKey === undefined) return db.query(claimGenerationsStatement, params)
  for (let tries = 0; tries < SLOT_RETRIES; tries += 1) {
    try {
      return await db.query(claimKeyedGenerationsStatement, [...params, options.concurrencyPerKey])
    } catch (error) {
      const cause = error instanceof Error ? error.cause : undefined
      if (!isUniqueViolation(cause, 'generations_concurrency_slot_key')) throw error
    }
  }
  return []
}
