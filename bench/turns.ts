/**
 * `turns`: no-op model turns per second of one worker with ten slots, over messages that wait already.
 *
 * - ours: `createWorker` with a model that answers one word: claim, load, `chat()`, cutover. From the
 *   worker's first claim until the last generation is completed.
 * - `workerCpuMsPerTurn`, `floorCpuMsPerTurn`: CPU of that process alone, without Postgres; other load on the
 *   machine moves it less than the rates.
 * - floor: ten loops in the same process, each claiming one job and completing it, two statements a job.
 */
import type { Measured } from './bench-line.js'
import { startChild, type Child } from './child.js'
import { createFloorJobs } from './floor-jobs.js'
import { median, spreadOf } from './statistics.js'
import type { BenchDatabase, World } from './world.js'

const LIMIT = 0.4
const WARM_UP_SLICES = 2

export async function benchTurns(world: World): Promise<Measured> {
  const database = await world.database()
  await createFloorJobs(database.sql)
  await using child = await startChild('turns', {
    databaseUrl: database.url,
    streamsUrl: world.streamsUrl,
    slots: 10,
  })
  const rates = { ours: [] as number[], floor: [] as number[] }
  const cpu = { ours: [] as number[], floor: [] as number[] }
  const count = world.quick ? 300 : 500
  const slices = world.quick ? 8 : 24
  for (let slice = -WARM_UP_SLICES; slice < slices; slice += 1) {
    for (const side of ['floor', 'ours'] as const) {
      await (side === 'ours' ? queueMessages(database, count) : queueJobs(database, count))
      const { ms, cpuMs } = await runSlice(child, side, count)
      if (slice < 0) continue
      rates[side].push((count * 1000) / ms)
      cpu[side].push(cpuMs / count)
    }
  }
  const { p50, p95 } = spreadOf(rates.ours, 'more')
  const floor = median(rates.floor)
  return {
    bench: 'turns',
    unit: 'turns/s',
    ours: p50,
    floor,
    p50,
    p95,
    n: slices * count,
    limits: [{ what: 'p50 / floor', value: p50 / floor, atLeast: LIMIT }],
    why: 'the worker takes 0.6 ms CPU a turn (floor 0.15), mostly chat(), garbage and socket writes; Postgres takes 0.45 ms (floor 0.35), as loads and cutovers share statements, so the one waits for the other',
    extra: { workerCpuMsPerTurn: median(cpu.ours), floorCpuMsPerTurn: median(cpu.floor) },
  }
}

async function runSlice(child: Child, side: 'ours' | 'floor', count: number) {
  const slice = child.next('slice')
  child.order({ type: side, count })
  return await slice
}

async function queueMessages({ sql }: BenchDatabase, count: number): Promise<void> {
  await sql`
    with session as (insert into ai_db.sessions (metadata) select '{}' from generate_series(1, ${count}) returning id)
    insert into ai_db.messages (session_id, role, actor_id, target_agent, content)
    select id, 'user', 'user', 'noop', 'Say one word.' from session`
}

async function queueJobs({ sql }: BenchDatabase, count: number): Promise<void> {
  await sql`
    insert into floor.jobs (session_id, name, content)
    select gen_random_uuid()::text, 'noop', 'Say one word.' from generate_series(1, ${count})`
}
