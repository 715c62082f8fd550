/**
 * The floor: a plain job table in the style of the contract tables, and the least SQL that hands its rows
 * from one process to another correctly. No foreign keys, no triggers, one index for the claim.
 */
import type postgres from 'postgres'

/** The channel jobs are rung on; the payload is the job's id. */
export const JOB_CHANNEL = 'floor_job'
/** The channel settled jobs are rung on; the payload is the job's id. */
export const SETTLED_CHANNEL = 'floor_settled'

export interface FloorJob {
  id: string
  content: string
  attempt: number
}

export async function createFloorJobs(sql: postgres.Sql): Promise<void> {
  await sql.unsafe(`
    create schema floor;
    create table floor.jobs (
      id text primary key default gen_random_uuid()::text,
      session_id text not null,
      name text not null,
      content text not null,
      status text not null default 'pending' check (status in ('pending', 'executing', 'completed')),
      attempt int not null default 0,
      worker_id text,
      result text,
      run_at timestamptz not null default now(),
      created_at timestamptz not null default now(),
      started_at timestamptz,
      completed_at timestamptz);
    create index jobs_claim_idx on floor.jobs (run_at, id) where status = 'pending'`)
}

/** One statement, and so one transaction: the row and its ring. */
export async function insertJob(sql: postgres.Sql, id: string, content: string): Promise<void> {
  await prepared(
    sql,
    `with job as (
      insert into floor.jobs (id, session_id, name, content) values ($1, $2, 'bench', $3) returning id)
    select pg_notify('${JOB_CHANNEL}', id) from job`,
    [id, `session of ${id}`, content],
  )
}

export async function claimJob(sql: postgres.Sql, worker: string): Promise<FloorJob | undefined> {
  const [job] = await prepared<FloorJob>(
    sql,
    `update floor.jobs set status = 'executing', attempt = attempt + 1, worker_id = $1, started_at = now()
      where id = (
        select id from floor.jobs where status = 'pending' and run_at <= now()
         order by run_at, id limit 1 for update skip locked)
      returning id, content, attempt`,
    [worker],
  )
  return job
}

export async function completeJob(
  sql: postgres.Sql,
  { id, attempt }: FloorJob,
  result: string,
): Promise<void> {
  await prepared(
    sql,
    `update floor.jobs set status = 'completed', result = $3, completed_at = now()
      where id = $1 and attempt = $2 and status = 'executing'`,
    [id, attempt, result],
  )
}

/** Also tells who asked. */
export async function settleJob(
  sql: postgres.Sql,
  { id, attempt }: FloorJob,
  result: string,
): Promise<void> {
  await prepared(
    sql,
    `with settled as (
      update floor.jobs set status = 'completed', result = $3, completed_at = now()
       where id = $1 and attempt = $2 and status = 'executing' returning id)
    select pg_notify('${SETTLED_CHANNEL}', id) from settled`,
    [id, attempt, result],
  )
}

export async function readJobResult(sql: postgres.Sql, id: string): Promise<string | null> {
  const [row] = await prepared<{ result: string | null }>(
    sql,
    'select result from floor.jobs where id = $1',
    [id],
  )
  return row?.result ?? null
}

/** As the library sends its statements: prepared once a connection. */
async function prepared<Row>(
  sql: postgres.Sql,
  text: string,
  params: (string | number)[],
): Promise<Row[]> {
  return (await sql.unsafe(text, params, { prepare: true })) as unknown as Row[]
}
