/**
 * `tool-roundtrip`: a process that holds a generation asks for a tool; another process claims the call, runs
 * it (it adds two numbers), settles it; the first sees the result. The clock starts at the call that inserts
 * and stops when the result has been read, on both sides.
 *
 * - ours: `recordStep` with a pending call → `createToolExecutor` → the `settled` ring → `readToolCalls`.
 * - floor: insert a job and notify → claim, settle and notify back → read the result.
 * - `insertP50`, `floorInsertP50`: until the inserting call had returned; part of the above.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { createSession, createStore, sendMessage, type Store } from '../src/server.js'
import { deferred, type Deferred } from '../src/internal/abort.js'
import type { Measured } from './bench-line.js'
import { startChild } from './child.js'
import { now } from './clock.js'
import { createFloorJobs, insertJob, readJobResult, SETTLED_CHANNEL } from './floor-jobs.js'
import { median, spreadOf } from './statistics.js'
import type { BenchDatabase, World } from './world.js'

const WARM_UP = 40
const LIMIT = 1.3
const AGENT = 'requester'
/** Steps of one generation before the next is taken: nobody's generation has hundreds. */
const STEPS = 10

export async function benchToolRoundtrip(world: World): Promise<Measured> {
  const ours = await world.database()
  const floor = await world.database()
  await createFloorJobs(floor.sql)
  await using _executor = await startChild('executor', { databaseUrl: ours.url })
  await using _rawWorker = await startChild('floor-worker', {
    databaseUrl: floor.url,
    settles: true,
  })
  const requester = await Requester.create(ours)
  const rawRequester = await RawRequester.create(floor)
  const samples: Record<'ours' | 'floor', RoundTrip[]> = { ours: [], floor: [] }
  const n = world.quick ? 150 : 500
  for (let i = -WARM_UP; i < n; i += 1) {
    const raw = await rawRequester.roundTrip(i)
    await untilAsleep()
    const took = await requester.roundTrip(i)
    await untilAsleep()
    if (i < 0) continue
    samples.floor.push(raw)
    samples.ours.push(took)
  }
  const { p50, p95 } = spreadOf(samples.ours.map(({ took }) => took))
  const floorSpread = spreadOf(samples.floor.map(({ took }) => took))
  return {
    bench: 'tool-roundtrip',
    unit: 'ms',
    ours: p50,
    floor: floorSpread.p50,
    p50,
    p95,
    n,
    limits: [{ what: 'p50 / floor', value: p50 / floorSpread.p50, atMost: LIMIT }],
    why: 'Postgres CPU of step, claim and settle is 1.3 ms against 0.55: the step and the result also lock and write or read their generation, under checks and triggers',
    extra: {
      floorP95: floorSpread.p95,
      insertP50: median(samples.ours.map(({ inserted }) => inserted)),
      floorInsertP50: median(samples.floor.map(({ inserted }) => inserted)),
    },
  }
}

interface RoundTrip {
  took: number
  /** Until the inserting call had returned. */
  inserted: number
}

/** Holds generations as a worker does, and asks for tools through the store. */
class Requester {
  readonly #database: BenchDatabase
  readonly #store: Store
  readonly #workerId = randomUUID()
  #held: { id: string; attempt: number; step: number } | undefined
  #settled: Deferred = deferred()

  private constructor(database: BenchDatabase) {
    this.#database = database
    this.#store = createStore(database.db)
  }

  static async create(database: BenchDatabase): Promise<Requester> {
    const requester = new Requester(database)
    await requester.#store.registerWorker({
      id: requester.#workerId,
      name: 'bench',
      agents: [AGENT],
      tools: [],
      slots: 1,
      locked: false,
      leaseMs: 3_600_000,
      version: 'bench',
    })
    await database.sql.listen('ai_db', (payload) => requester.#heard(payload))
    return requester
  }

  async roundTrip(i: number): Promise<RoundTrip> {
    const held = await this.#hold()
    const { step } = held
    this.#settled = deferred()
    const start = now()
    await this.#store.recordStep({
      generationId: held.id,
      attempt: held.attempt,
      workerId: this.#workerId,
      step,
      text: '',
      chunkIndex: step,
      toolCalls: [
        {
          providerCallId: `${held.id}:${step}`,
          name: 'add',
          args: { a: i, b: 1 },
          status: 'pending',
        },
      ],
      inputTokens: 0,
      outputTokens: 0,
      model: null,
      providerResponseId: null,
    })
    const inserted = now() - start
    held.step += 1
    await this.#settled.promise
    const [call] = await this.#store.readToolCalls(held.id, step)
    const took = now() - start
    if (call?.result !== i + 1) throw new Error(`bench: the tool answered ${String(call?.result)}`)
    return { took, inserted }
  }

  async #hold(): Promise<{ id: string; attempt: number; step: number }> {
    if (this.#held && this.#held.step < STEPS) return this.#held
    const { db } = this.#database
    const session = await createSession(db)
    await sendMessage(db, { sessionId: session.id, targetAgent: AGENT, content: 'go' })
    const [claimed] = await this.#store.claimGenerations({
      workerId: this.#workerId,
      agents: new Map([[AGENT, 5]]),
      limit: 1,
    })
    this.#held = { id: claimed!.id, attempt: claimed!.attempt, step: claimed!.step }
    return this.#held
  }

  #heard(payload: string): void {
    if (this.#held && payload === `settled:${this.#held.id}`) this.#settled.resolve()
  }
}

class RawRequester {
  readonly #database: BenchDatabase
  #waiting = { id: '', settled: deferred() }

  private constructor(database: BenchDatabase) {
    this.#database = database
  }

  static async create(database: BenchDatabase): Promise<RawRequester> {
    const requester = new RawRequester(database)
    await database.sql.listen(SETTLED_CHANNEL, (id) => {
      if (id === requester.#waiting.id) requester.#waiting.settled.resolve()
    })
    return requester
  }

  async roundTrip(i: number): Promise<RoundTrip> {
    const { sql } = this.#database
    const id = randomUUID()
    this.#waiting = { id, settled: deferred() }
    const start = now()
    await insertJob(sql, id, JSON.stringify({ a: i, b: 1 }))
    const inserted = now() - start
    await this.#waiting.settled.promise
    const result = await readJobResult(sql, id)
    const took = now() - start
    if (result !== String(i + 1)) throw new Error(`bench: the job answered ${result}`)
    return { took, inserted }
  }
}

const untilAsleep = () => delay(12 + Math.random() * 8)
