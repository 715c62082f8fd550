/**
 * `recovery`: of two worker processes, the one that is writing an answer is killed (kill -9) mid-text. The
 * time from the kill until a reader has the next new character, from the other worker. What the dead one had
 * sent already is not new.
 *
 * - ours: the model honours prefill (`onInterrupted: 'continue'`) and gives 50 tokens a second.
 * - floor: two processes, one holds an advisory lock, the other waits for it; kill -9 until the other has
 *   the lock and has claimed the job by one UPDATE. No model, no reader: the least a takeover can take.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { createSession, createStore, followGeneration, sendMessage } from '../src/server.js'
import type { Measured } from './bench-line.js'
import { startChild, type Child } from './child.js'
import { now } from './clock.js'
import { createFloorJobs } from './floor-jobs.js'
import { median, spreadOf } from './statistics.js'
import type { BenchDatabase, World } from './world.js'

const LIMIT_MS = 1_000
const TOKENS_PER_SECOND = 50

export async function benchRecovery(world: World): Promise<Measured> {
  const ours = await world.database()
  const floor = await world.database()
  await createFloorJobs(floor.sql)
  await using pair = new WorkerPair(ours, world.streamsUrl)
  await using lockPair = await LockPair.create(floor)
  const samples = { ours: [] as number[], floor: [] as number[] }
  const n = world.quick ? 10 : 30
  for (let i = 0; i < n; i += 1) {
    await Promise.all([pair.start(), lockPair.start()])
    await delay(SETTLE_MS)
    samples.floor.push(await lockPair.killHolder())
    samples.ours.push(await pair.killHolder())
  }
  const { p50, p95 } = spreadOf(samples.ours)
  return {
    bench: 'recovery',
    unit: 'ms',
    ours: p50,
    floor: median(samples.floor),
    p50,
    p95,
    n,
    limits: [{ what: 'p95', value: p95, atMost: LIMIT_MS, unit: ' ms' }],
    extra: { worst: Math.max(...samples.ours) },
  }
}

/** Time for a new worker to find its neighbour and watch it. */
const SETTLE_MS = 250

class WorkerPair implements AsyncDisposable {
  readonly #database: BenchDatabase
  readonly #streamsUrl: string
  #workers: Child[] = []

  constructor(database: BenchDatabase, streamsUrl: string) {
    this.#database = database
    this.#streamsUrl = streamsUrl
  }

  /** Starts who is missing. */
  async start(): Promise<void> {
    while (this.#workers.length < 2) this.#workers.push(await this.#startWorker())
  }

  async killHolder(): Promise<number> {
    const { db } = this.#database
    const session = await createSession(db)
    const claims = this.#workers.map(async (worker) => {
      await worker.next('claimed')
      return worker
    })
    const { id } = await sendMessage(db, {
      sessionId: session.id,
      targetAgent: 'prose',
      content: 'Tell me.',
    })
    const holder = await Promise.race(claims)
    for (const claim of claims) claim.catch(() => undefined)
    const store = createStore(db)
    const generationId = (await store.generationForMessage(id))!
    const took = await this.#killMidText(holder, generationId)
    await store.cancelGeneration(generationId)
    return took
  }

  /** From the kill to the first character that the reader had not seen. */
  async #killMidText(holder: Child, generationId: string): Promise<number> {
    const { db } = this.#database
    let killed: number | undefined
    let shown = 0
    const killAfterTokens = 10 + Math.random() * 20
    const streams = { url: this.#streamsUrl }
    for await (const update of followGeneration({ db, generationId, streams })) {
      const { attempt } = update.transcript
      if (attempt > 1 && killed !== undefined && update.text.length > shown) return now() - killed
      if (attempt <= 1) shown = update.text.length
      if (killed === undefined && update.text.split(' ').length > killAfterTokens) {
        this.#workers = this.#workers.filter((worker) => worker !== holder)
        killed = now()
        void holder.kill()
      }
    }
    throw new Error('bench: the answer ended before its worker was killed and replaced')
  }

  #startWorker(): Promise<Child> {
    return startChild('worker', {
      databaseUrl: this.#database.url,
      streamsUrl: this.#streamsUrl,
      agents: ['prose'],
      slots: 10,
      tokensPerSecond: TOKENS_PER_SECOND,
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.stop()))
  }
}

class LockPair implements AsyncDisposable {
  readonly #database: BenchDatabase
  readonly #jobId: string
  /** The first has the lock, or is about to; the second waits. */
  readonly #children: Child[] = []

  private constructor(database: BenchDatabase, jobId: string) {
    this.#database = database
    this.#jobId = jobId
  }

  static async create(database: BenchDatabase): Promise<LockPair> {
    const id = crypto.randomUUID()
    await database.sql`
      insert into floor.jobs (id, session_id, name, content) values (${id}, 'one', 'prose', 'Tell me.')`
    return new LockPair(database, id)
  }

  async start(): Promise<void> {
    while (this.#children.length < 2) {
      const config = { databaseUrl: this.#database.url, jobId: this.#jobId }
      this.#children.push(await startChild('lock-holder', config))
    }
  }

  async killHolder(): Promise<number> {
    const begun = this.#children[1]!.next('begun')
    const killed = now()
    void this.#children.shift()!.kill()
    return (await begun).at - killed
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#children.map((child) => child.kill()))
  }
}
