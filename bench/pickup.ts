/**
 * `pickup`: from the call that inserts a message to its handler's first line, in another process that was
 * asleep. The clock starts at the call on both sides, so the insert and its commit are part of both.
 *
 * - ours: `sendMessage()` → the run of a worker's agent begins.
 * - floor: one statement that inserts a job and notifies → the other process has claimed it.
 * - `insertP50`, `floorInsertP50`: until the inserting call had returned; part of the above.
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
  const samples: Samples = { ours: [], floor: [], adapter: [] }
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

interface PickUp {
  took: number
  /** Until the inserting call had returned. */
  inserted: number
}

type Samples = Record<'ours' | 'floor' | 'adapter', PickUp[]>

function measured(samples: Samples): Measured {
  const tookOf = (side: keyof Samples) => samples[side].map(({ took }) => took)
  const insertP50 = (side: keyof Samples) => median(samples[side].map(({ inserted }) => inserted))
  const { p50, p95, n } = spreadOf(tookOf('ours'))
  const floor = spreadOf(tookOf('floor'))
  return {
    bench: 'pickup',
    unit: 'ms',
    ours: p50,
    floor: floor.p50,
    p50,
    p95,
    n,
    limits: [{ what: 'p50 / floor', value: p50 / floor.p50, atMost: LIMIT }],
    why: 'Postgres CPU: sending takes 0.48 ms against 0.17, half of it for the row of the generation (indexes, foreign key, ring); claiming 0.43 against 0.18, for checks, guard trigger, index entries and the inbox',
    extra: {
      floorP95: floor.p95,
      insertP50: insertP50('ours'),
      floorInsertP50: insertP50('floor'),
      adapterP50: median(tookOf('adapter')),
    },
  }
}

async function pickUpMessage(
  { db }: BenchDatabase,
  worker: Child,
  agent: 'bare' | 'timed',
): Promise<PickUp> {
  const session = await createSession(db)
  const id = randomUUID()
  const begun = worker.next('begun', (note) => note.key === id)
  const finished = worker.next('finished')
  const start = now()
  await sendMessage(db, { id, sessionId: session.id, targetAgent: agent, content: id })
  const inserted = now() - start
  const { at } = await begun
  await finished
  await untilAsleep()
  return { took: at - start, inserted }
}

async function pickUpJob({ sql }: BenchDatabase, worker: Child): Promise<PickUp> {
  const id = randomUUID()
  const begun = worker.next('begun', (note) => note.key === id)
  const finished = worker.next('finished')
  const start = now()
  await insertJob(sql, id, id)
  const inserted = now() - start
  const { at } = await begun
  await finished
  await untilAsleep()
  return { took: at - start, inserted }
}

/** Long enough for a worker to look once more and lie down; uneven, so as not to beat with any timer. */
const untilAsleep = () => delay(12 + Math.random() * 8)
