/**
 * `pickup`: from the call that inserts a message to its handler's first line, in another process that was
 * asleep. The clock starts at the call on both sides, so the insert and its commit are part of both.
 *
 * - ours: `sendMessage()` → the run of a worker's agent begins.
 * - floor: one statement that inserts a job and notifies → the other process has claimed it.
 * - `adapterP50`: the same with a real agent, until its model adapter is called. That is one more round trip
 *   (the conversation is loaded) and `chat()`; it has no floor.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { createSession, sendMessage } from '../src/server.js'
import type { Measured } from './bench-line.js'
import { startChild, type Child } from './child.js'
import { now } from './clock.js'
import { createFloorJobs, insertJob } from './floor-jobs.js'
import { median, spreadOf } from './statistics.js'
import type { BenchDatabase, World } from './world.js'

const WARM_UP = 40
const LIMIT = 1.3

export async function benchPickup(world: World): Promise<Measured> {
  const ours = await world.database()
  const floor = await world.database()
  await createFloorJobs(floor.sql)
  await using worker = await startChild('worker', {
    databaseUrl: ours.url,
    streamsUrl: world.streamsUrl,
    agents: ['bare', 'timed'],
    slots: 10,
  })
  await using rawWorker = await startChild('floor-worker', {
    databaseUrl: floor.url,
    settles: false,
  })
  const samples = { ours: [] as number[], floor: [] as number[], adapter: [] as number[] }
  const n = world.quick ? 150 : 500
  for (let i = -WARM_UP; i < n; i += 1) {
    const took = {
      floor: await pickUpJob(floor, rawWorker),
      ours: await pickUpMessage(ours, worker, 'bare'),
      // Every third is enough for a field beside the result.
      ...((i < 0 || i % 3 === 0) && { adapter: await pickUpMessage(ours, worker, 'timed') }),
    }
    if (i < 0) continue
    samples.floor.push(took.floor)
    samples.ours.push(took.ours)
    if (took.adapter !== undefined) samples.adapter.push(took.adapter)
  }
  return measured(samples)
}

function measured(samples: { ours: number[]; floor: number[]; adapter: number[] }): Measured {
  const { p50, p95, n } = spreadOf(samples.ours)
  const floor = spreadOf(samples.floor)
  return {
    bench: 'pickup',
    unit: 'ms',
    ours: p50,
    floor: floor.p50,
    p50,
    p95,
    n,
    limits: [{ what: 'p50 / floor', value: p50 / floor.p50, atMost: LIMIT }],
    why: 'ours writes two rows with their foreign keys and indexes where the floor writes one',
    extra: { floorP95: floor.p95, adapterP50: median(samples.adapter) },
  }
}

async function pickUpMessage(
  { db }: BenchDatabase,
  worker: Child,
  agent: 'bare' | 'timed',
): Promise<number> {
  const session = await createSession(db)
  const id = randomUUID()
  const begun = worker.next('begun', (note) => note.key === id)
  const finished = worker.next('finished')
  const start = now()
  await sendMessage(db, { id, sessionId: session.id, targetAgent: agent, content: id })
  const { at } = await begun
  await finished
  await untilAsleep()
  return at - start
}

async function pickUpJob({ sql }: BenchDatabase, worker: Child): Promise<number> {
  const id = randomUUID()
  const begun = worker.next('begun', (note) => note.key === id)
  const finished = worker.next('finished')
  const start = now()
  await insertJob(sql, id, id)
  const { at } = await begun
  await finished
  await untilAsleep()
  return at - start
}

/** Long enough for a worker to look once more and lie down; uneven, so as not to beat with any timer. */
const untilAsleep = () => delay(12 + Math.random() * 8)
