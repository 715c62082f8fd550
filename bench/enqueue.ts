/**
 * `enqueue`: messages inserted per second over ten connections, one a transaction, each into a session of its
 * own, so that each makes a generation. A plain INSERT on every side; workers are up.
 *
 * - ours: all slots of the agent's worker are busy: nobody sleeps, so nobody is rung.
 * - `idleElsewhere`: the only worker up sleeps, and serves another agent.
 * - floor: the same rows in a database whose wake-up triggers are dropped.
 * - `sendMessage`: the library's call instead of the INSERT, beside the busy worker. It also checks the
 *   agent's name against the workers and returns the transaction's id.
 */
import { createSession, sendMessage } from '../src/server.js'
import type { Measured } from './bench-line.js'
import { startChild, type Child } from './child.js'
import { now } from './clock.js'
import { median, spreadOf } from './statistics.js'
import type { BenchDatabase, World } from './world.js'

const LIMIT = 0.8
const CONNECTIONS = 10
const SLOTS = 2
const PER_SLICE = 500
const WARM_UP_SLICES = 2

type Insert = (sessionId: string) => Promise<unknown>

interface Side {
  database: BenchDatabase
  insert: Insert
  rates: number[]
}

export async function benchEnqueue(world: World): Promise<Measured> {
  const database = await world.database()
  const busy = plainInserts(database)
  const viaLibrary = sentMessages(database)
  const elsewhere = plainInserts(await world.database())
  const floor = plainInserts(await world.database())
  await dropWakeUps(floor.database)
  await using _busyWorker = await occupiedWorker(database)
  await using _otherWorker = await startChild('worker', {
    databaseUrl: elsewhere.database.url,
    agents: ['bare'],
    slots: SLOTS,
  })
  const slices = world.quick ? 10 : 40
  for (let slice = -WARM_UP_SLICES; slice < slices; slice += 1) {
    for (const side of [floor, busy, elsewhere, viaLibrary]) {
      const rate = await sliceRate(side)
      if (slice >= 0) side.rates.push(rate)
    }
  }
  const floorRate = median(floor.rates)
  const { p50, p95 } = spreadOf(busy.rates, 'more')
  return {
    bench: 'enqueue',
    unit: 'messages/s',
    ours: p50,
    floor: floorRate,
    p50,
    p95,
    n: slices * PER_SLICE,
    limits: [{ what: 'p50 / floor', value: p50 / floorRate, atLeast: LIMIT }],
    why: 'each insert still looks whether a worker sleeps',
    extra: {
      idleElsewhere: median(elsewhere.rates),
      idleElsewhereRatio: median(elsewhere.rates) / floorRate,
      sendMessage: median(viaLibrary.rates),
      sendMessageRatio: median(viaLibrary.rates) / floorRate,
    },
  }
}

function sentMessages(database: BenchDatabase): Side {
  const insert: Insert = (sessionId) =>
    sendMessage(database.db, { sessionId, targetAgent: 'blocking', content: 'Wait for your turn.' })
  return { database, insert, rates: [] }
}

function plainInserts(database: BenchDatabase): Side {
  const text = `
    insert into ai_db.messages (id, session_id, role, actor_id, target_agent, content)
    values ($1, $2, 'user', 'user', 'blocking', $3)`
  const insert: Insert = (sessionId) =>
    database.sql.unsafe(text, [crypto.randomUUID(), sessionId, 'Wait for your turn.'], {
      prepare: true,
    })
  return { database, insert, rates: [] }
}

async function dropWakeUps({ sql }: BenchDatabase): Promise<void> {
  await sql.unsafe(`
    drop trigger generations_ring_inserted on ai_db.generations;
    drop trigger generations_ring_pending on ai_db.generations`)
}

/** A worker whose every slot runs something that does not end, and which has noticed that. */
async function occupiedWorker(database: BenchDatabase): Promise<Child> {
  const { db, sql } = database
  const slots = SLOTS
  const worker = await startChild('worker', {
    databaseUrl: database.url,
    agents: ['blocking'],
    slots,
  })
  for (let slot = 0; slot < slots; slot += 1) {
    const claimed = worker.next('claimed')
    const { id } = await createSession(db)
    await sendMessage(db, { sessionId: id, targetAgent: 'blocking', content: 'Begin.' })
    await claimed
  }
  const deadline = now() + 5_000
  for (;;) {
    const [row] = await sql`select bool_or(sleeping) as sleeping from ai_db.workers`
    if (row?.sleeping === false) return worker
    if (now() > deadline) throw new Error('bench: a full worker still says that it sleeps')
    await sql`select pg_sleep(0.05)`
  }
}

async function sliceRate({ database, insert }: Side): Promise<number> {
  const { sql } = database
  const sessions = await sql<{ id: string }[]>`
    insert into ai_db.sessions (metadata) select '{}' from generate_series(1, ${PER_SLICE}) returning id`
  const ids = sessions.map((row) => row.id)
  const start = now()
  await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      for (let id = ids.pop(); id !== undefined; id = ids.pop()) await insert(id)
    }),
  )
  return (PER_SLICE * 1000) / (now() - start)
}
