/** Recovery: what a dead worker held goes back, once, bounded by lack of progress; a live worker keeps its rows. */
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { createStore } from '../../src/claims/store.js'
import { dumpTables, holdConnection, openTransaction, waitForLock } from '../support/connections.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { answer, done, scenario, type Scenario } from './rows.js'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterEach(() => {
  vi.useRealTimers()
})

async function rowOf(table: 'generations' | 'tool_calls', id: string) {
  const [row] = await database.sql<{ status: string; attempt: number; error: string | null }[]>`
    select status, attempt, error from ai_db.${database.sql(table)} where id = ${id}`
  return row!
}

const expireLease = (id: string) => database.sql`
  update ai_db.workers set lease_expires_at = now() - interval '1 ms' where id = ${id}`

const died: readonly (readonly [
  string,
  (here: Scenario, worker: string) => Promise<readonly string[]>,
])[] = [
  [
    'whose lease ran out',
    async (_here, worker) => {
      await expireLease(worker)
      return []
    },
  ],
  ['whose connection was seen to end', (_here, worker) => Promise.resolve([worker])],
  [
    'whose row is gone (psql, a restored backup)',
    async (here, worker) => {
      await here.store.deregisterWorker(worker)
      return []
    },
  ],
]

describe.each(died)('a worker %s', (_name, die) => {
  it('gives its generation and tool calls back, their attempts kept', async () => {
    const here = scenario(database)
    const run = await here.running()
    const [call] = await here.calls(run, 1)
    const recovered = await here.store.recoverWorkers(await die(here, run.workerId))
    expect(recovered).toMatchObject({
      generations: [{ id: run.id, status: 'pending' }],
      toolCalls: [{ id: call, status: 'pending' }],
    })
    expect(await rowOf('generations', run.id)).toMatchObject({ status: 'pending', attempt: 1 })
    expect(await rowOf('tool_calls', call!)).toMatchObject({ status: 'pending', attempt: 1 })
    expect(await here.claimOne('next')).toMatchObject({ id: run.id, attempt: 2 })
    const again = await here.store.claimOwnToolCalls([call!], 'next')
    expect(again).toMatchObject([{ id: call, attempt: 2 }])
    await here.store.cancelGeneration(run.id)
  })

  it('finds its lease gone and its writes fenced when it comes back', async () => {
    const here = scenario(database)
    const run = await here.running()
    await here.store.recoverWorkers(await die(here, run.workerId))
    expect(await here.store.renewLease(run.workerId, 60_000, false)).toBe(false)
    await expect(here.store.settleGeneration(answer(run))).rejects.toMatchObject({ code: 'FENCED' })
    await here.store.cancelGeneration(run.id)
  })
})

describe('a live worker', () => {
  it('keeps its rows: recovery changes nothing at all', async () => {
    const here = scenario(database)
    const run = await here.running()
    await here.calls(run, 2)
    await here.say(run.sessionId)
    const before = await dumpTables(database.sql)
    expect(await here.store.recoverWorkers()).toEqual({
      workers: [],
      generations: [],
      toolCalls: [],
    })
    expect(await dumpTables(database.sql)).toEqual(before)
  })

  it('keeps its rows when the neighbour of its session dies', async () => {
    const here = scenario(database)
    const [alive, dead] = [await here.running(), await here.running()]
    await here.store.recoverWorkers([dead.workerId])
    expect(await rowOf('generations', alive.id)).toMatchObject({ status: 'generating' })
    expect(await rowOf('generations', dead.id)).toMatchObject({ status: 'pending' })
  })

  it('that renewed in time keeps its rows: the renewal counts, not the first lease', async () => {
    const here = scenario(database)
    const run = await here.running()
    await expireLease(run.workerId)
    expect(await here.store.renewLease(run.workerId, 60_000, true)).toBe(true)
    await here.store.recoverWorkers()
    expect(await rowOf('generations', run.id)).toMatchObject({ status: 'generating' })
  })

  it.each(['2000-01-01', '2100-01-01'])(
    'keeps its rows although the clock of the recovering process says %s',
    async (clock) => {
      vi.useFakeTimers({ toFake: ['Date'], now: new Date(clock) })
      const here = scenario(database)
      const run = await here.running()
      const [call] = await here.calls(run, 1, 'pending')
      await database.sql`update ai_db.tool_calls set expires_at = now() + interval '1 m' where id = ${call!}`
      await here.store.renewLease(run.workerId, 60_000, false)
      await here.store.recoverWorkers()
      expect(await here.store.expireWaits()).toEqual({ expired: 0, woken: 0 })
      expect(await rowOf('generations', run.id)).toMatchObject({ status: 'generating' })
      await here.store.releaseGeneration({ generationId: run.id, attempt: 1, delayMs: 0 })
      expect(await here.claim('w')).toHaveLength(1)
      await here.store.cancelGeneration(run.id)
    },
  )

  it('that registered and claimed while a recovery was under way keeps what it claimed', async () => {
    const here = scenario(database)
    const run = await here.running()
    await expireLease(run.workerId)
    await database.sql.unsafe(`
      create function ai_db.test_stop() returns trigger language plpgsql as $$
        begin perform pg_advisory_xact_lock(4712); return old; end $$;
      create trigger zz_test_stop before delete on ai_db.workers for each row
        execute function ai_db.test_stop()`)
    const gate = await openTransaction(database.url)
    await gate.sql`select pg_advisory_xact_lock(4712)`
    const recoverer = await holdConnection(database.url)
    const recovering = recoverer.store.recoverWorkers()
    await waitForLock(database.sql, recoverer.pid)
    // Its lease is over and nobody has noticed yet: it still may write, and gives its work back.
    await here.store.releaseGeneration({ generationId: run.id, attempt: 1 })
    const young = await here.worker()
    const claimed = await here.claimOne(young)
    await gate.commit()
    const recovered = await recovering
    await database.sql`drop function ai_db.test_stop() cascade`
    expect(recovered.generations.map(({ id }) => id)).not.toContain(claimed.id)
    await here.store.settleGeneration(answer(claimed))
  })
})

describe('bounds', () => {
  it('a generation that made no progress for maxAttempts claims fails, and says why', async () => {
    const here = scenario(database)
    const sessionId = await here.session()
    const messageId = await here.say(sessionId)
    let last = ''
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      const worker = await here.worker()
      const run = await here.claimOne(worker, { maxAttempts: 3 })
      expect(run).toMatchObject({ attempt, attemptsWithoutProgress: attempt })
      const { generations } = await here.store.recoverWorkers([worker])
      expect(generations).toEqual([{ id: run.id, status: attempt < 3 ? 'pending' : 'failed' }])
      last = run.id
    }
    const { error } = await rowOf('generations', last)
    expect(error).toMatch(/gave up after 3 attempts without progress/)
    expect(await here.claim('w')).toEqual([])
    const [message] = await database.sql`
      select processed_by from ai_db.messages where id = ${messageId}`
    expect(message).toEqual({ processed_by: last })
  })

  it('a generation that gets on by one step each time is never given up', async () => {
    const here = scenario(database)
    await here.say(await here.session())
    for (let attempt = 1; attempt <= 8; attempt += 1) {
      const workerId = await here.worker()
      const run = await here.claimOne(workerId, { maxAttempts: 2 })
      expect(run).toMatchObject({ attempt, attemptsWithoutProgress: 1, step: attempt - 1 })
      await here.calls({ ...run, workerId, messageId: '' }, 0)
      await here.store.recoverWorkers([workerId])
    }
  })

  it('a put-down or a release without an error costs no attempt', async () => {
    const here = scenario(database)
    await here.say(await here.session())
    for (let attempt = 1; attempt <= 5; attempt += 1) {
      const run = await here.claimOne('w', { maxAttempts: 2 })
      expect(run).toMatchObject({ attempt, attemptsWithoutProgress: 1 })
      await here.store.releaseGeneration({ generationId: run.id, attempt })
    }
  })

  it('an error with retries left waits its delay, and the last one fails the generation', async () => {
    const here = scenario(database)
    await here.say(await here.session())
    const release = (run: { id: string; attempt: number }, delayMs: number) =>
      here.store.releaseGeneration({
        generationId: run.id,
        attempt: run.attempt,
        error: 'overloaded',
        delayMs,
      })
    const first = await here.claimOne('w', { maxAttempts: 2 })
    expect(await release(first, 60_000)).toBe('pending')
    expect(await here.claim('w')).toEqual([])
    await database.sql`update ai_db.generations set run_at = now() where id = ${first.id}`
    expect(await release(await here.claimOne('w', { maxAttempts: 2 }), 60_000)).toBe('failed')
    expect(await rowOf('generations', first.id)).toMatchObject({ error: 'overloaded' })
  })

  it('a tool call that killed its executor maxAttempts times fails, and its generation goes on', async () => {
    const here = scenario(database)
    const run = await here.running()
    const [call] = await here.calls(run, 1, 'pending')
    await here.store.putDownGeneration(run.id, run.attempt, 'tools')
    await database.sql`update ai_db.tool_calls set max_attempts = 2 where id = ${call!}`
    for (let attempt = 1; attempt <= 2; attempt += 1) {
      const executor = await here.worker({ tools: ['lookup'] })
      const claimed = await here.store.claimOwnToolCalls([call!], executor)
      expect(claimed).toMatchObject([{ id: call, attempt }])
      await here.store.recoverWorkers([executor])
    }
    expect(await rowOf('tool_calls', call!)).toMatchObject({ status: 'failed', attempt: 2 })
    expect(await here.claimOne('w')).toMatchObject({ id: run.id, attempt: 2 })
    await here.store.cancelGeneration(run.id)
  })

  it('a tool call outlives the generation worker that asked for it: its executor may still settle it', async () => {
    const here = scenario(database)
    const run = await here.running()
    const [call] = await here.calls(run, 1, 'pending')
    const executor = await here.worker()
    await here.store.claimOwnToolCalls([call!], executor)
    await here.store.recoverWorkers([run.workerId])
    await here.store.settleToolCall(done(call!))
    expect(await rowOf('tool_calls', call!)).toMatchObject({ status: 'completed', attempt: 1 })
  })
})

describe('many that recover at once', () => {
  it('five recoveries give each row back once', async () => {
    const here = scenario(database)
    const stores = Array.from({ length: 5 }, () => createStore(database.connect(1)))
    for (let round = 0; round < 15; round += 1) {
      const runs = [await here.running(), await here.running()]
      runs.push(await here.running(), await here.running())
      const calls = (await Promise.all(runs.map((run) => here.calls(run, 2)))).flat()
      for (const run of runs.slice(0, 2)) await expireLease(run.workerId)
      const dead = runs.slice(2).map((run) => run.workerId)
      const outcomes = await Promise.all(stores.map((store) => store.recoverWorkers(dead)))
      const all = {
        workers: outcomes.flatMap((outcome) => outcome.workers).toSorted(),
        generations: outcomes.flatMap((o) => o.generations.map(({ id }) => id)).toSorted(),
        calls: outcomes.flatMap((o) => o.toolCalls.map(({ id }) => id)).toSorted(),
      }
      expect(all).toEqual({
        workers: runs.map((run) => run.workerId).toSorted(),
        generations: runs.map((run) => run.id).toSorted(),
        calls: calls.toSorted(),
      })
      const claimed = await here.claim('next')
      expect(claimed.map((run) => run.attempt)).toEqual([2, 2, 2, 2])
      for (const run of claimed) await here.store.cancelGeneration(run.id)
    }
  })

  it('a row somebody is writing at that moment is passed over, and found in the next round', async () => {
    const here = scenario(database)
    const run = await here.running()
    const writing = await openTransaction(database.url)
    await writing.store.settleGeneration(answer(run))
    const first = await here.store.recoverWorkers([run.workerId])
    expect(first).toMatchObject({ workers: [run.workerId], generations: [] })
    await writing.rollback()
    const second = await here.store.recoverWorkers()
    expect(second.generations).toEqual([{ id: run.id, status: 'pending' }])
  })

  it('a cutover that commits under a recovery wins: the generation is not run again', async () => {
    const here = scenario(database)
    const run = await here.running()
    const writing = await openTransaction(database.url)
    await writing.store.settleGeneration(answer(run))
    await here.store.recoverWorkers([run.workerId])
    await writing.commit()
    expect((await here.store.recoverWorkers()).generations).toEqual([])
    expect(await rowOf('generations', run.id)).toMatchObject({ status: 'completed', attempt: 1 })
  })
})
