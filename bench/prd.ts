/**
 * `prd`: the four rows of the RFC's own table, with the primitives over Electric collections and a host's own tables in
 * Postgres. Sync server, asker and executor are processes of their own.
 *
 * - ours: a chunk's insert into the collection, until it is confirmed, at 50 tokens a second. floor: the same row
 *   inserted by SQL. p50 and p95 are of this.
 * - `trigger…`: a row inserted by SQL → its generation effect has fired in another process.
 * - `tool…`: a durable tool's call in one process → executed in another → its result, the tool itself taking no time.
 * - `concurrent`: generations that ran at once in one process, their tokens packed; `crowded…` is their chunks' latency.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Measured } from './bench-line.js'
import { HOST_TABLES } from './children/host-collections.js'
import { startChild, type Child } from './child.js'
import { now } from './clock.js'
import { spreadOf, type Spread } from './statistics.js'
import type { BenchDatabase, World } from './world.js'

const CONCURRENT = 12
const WARM_UP = 10
/** Twelve times fifty tokens a second, a transaction each, are more than a stack on two cores takes. */
const PACK_MS = 100

export async function benchPrd(world: World): Promise<Measured> {
  const database = await world.database()
  await database.sql.unsafe(HOST_TABLES)
  const databaseUrl = database.url
  await using sync = await startChild('sync-server', { databaseUrl })
  const listening = sync.next('listening')
  sync.order({ type: 'tell' })
  const electricUrl = (await listening).url
  await using executor = await startChild('primitives', {
    databaseUrl,
    electricUrl,
    role: 'executes',
  })
  await using asker = await startChild('primitives', { databaseUrl, electricUrl, role: 'asks' })
  const count = world.quick ? 60 : 300
  await triggered(database, executor, WARM_UP)
  const trigger = await triggered(database, executor, count)
  const tool = await toolRoundTrips(asker, count)
  const floor = await insertedBySql(await world.database(), count)
  await generated(database, executor, WARM_UP * 5)
  const { latencies } = await generated(database, executor, count)
  const chunk = spreadOf(latencies)
  const crowd = await generatedTogether(database, executor, world.quick ? 50 : 150)
  return {
    bench: 'prd',
    unit: 'ms',
    ours: chunk.p50,
    floor: floor.p50,
    p50: chunk.p50,
    p95: chunk.p95,
    n: count,
    limits: [
      { what: 'chunk p95', value: chunk.p95, atMost: 50, unit: ' ms' },
      { what: 'trigger p95', value: trigger.p95, atMost: 100, unit: ' ms' },
      { what: 'tool p95', value: tool.p95, atMost: 500, unit: ' ms' },
      { what: 'concurrent generations', value: crowd.most, atLeast: 10 },
    ],
    why: 'everything shares the cores of this machine',
    extra: {
      triggerP50: trigger.p50,
      triggerP95: trigger.p95,
      toolP50: tool.p50,
      toolP95: tool.p95,
      concurrent: crowd.most,
      crowdedChunks: crowd.spread.n,
      crowdedP50: crowd.spread.p50,
      crowdedP95: crowd.spread.p95,
    },
  }
}

/** A pause of random length: nothing here may fall into step with a timer. */
const pause = () => delay(5 + Math.random() * 20)

function request({ sql }: BenchDatabase, id: string, tokens: number, packMs = 0) {
  return sql`insert into host_requests values (${id}, ${tokens}, ${packMs}, 'pending')`
}

async function triggered(database: BenchDatabase, executor: Child, count: number): Promise<Spread> {
  const samples: number[] = []
  for (let turn = 0; turn < count; turn += 1) {
    await pause()
    const id = crypto.randomUUID()
    const begun = executor.next('begun', ({ key }) => key === id)
    const at = now()
    await request(database, id, 0)
    samples.push((await begun).at - at)
  }
  return spreadOf(samples)
}

async function toolRoundTrips(asker: Child, count: number): Promise<Spread> {
  const warm = asker.next('read')
  asker.order({ type: 'ours', count: WARM_UP })
  await warm
  const read = asker.next('read')
  asker.order({ type: 'ours', count })
  return spreadOf((await read).latencies)
}

async function insertedBySql({ sql }: BenchDatabase, count: number): Promise<Spread> {
  await sql.unsafe(HOST_TABLES)
  const samples: number[] = []
  for (let index = 0; index < count; index += 1) {
    await pause()
    const at = now()
    await sql`insert into host_chunks values (${`g-${index}`}, 'g', ${index}, ${`word-${index} `})`
    samples.push(now() - at)
  }
  return spreadOf(samples)
}

async function generated(database: BenchDatabase, executor: Child, tokens: number) {
  const read = executor.next('read', ({ latencies }) => latencies.length > 0)
  await request(database, crypto.randomUUID(), tokens)
  return await read
}

async function generatedTogether(database: BenchDatabase, executor: Child, tokens: number) {
  const latencies: number[] = []
  let ended = 0
  let most = 0
  const all = new Promise<void>((resolve) => {
    const off = executor.onNote((note) => {
      if (note.type !== 'read') return
      latencies.push(...note.latencies)
      most = Math.max(most, ...note.tokens)
      if ((ended += 1) < CONCURRENT) return
      off()
      resolve()
    })
  })
  for (let n = 0; n < CONCURRENT; n += 1)
    await request(database, crypto.randomUUID(), tokens, PACK_MS)
  await all
  return { most, spread: spreadOf(latencies) }
}
