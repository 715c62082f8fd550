/** Put down and taken up again: a waiting generation is resumed once, by whatever settles last, and never stranded. */
import { beforeAll, describe, expect, it, vi } from 'vitest'
import { createStore, type Store } from '../../src/claims/store.js'
import { openTransaction, waitForLock } from '../support/connections.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { answer, done, scenario, type Running, type Scenario } from './rows.js'

// A hundred rounds of a race take seconds, on a machine that seeds a million rows beside them more.
vi.setConfig({ testTimeout: 90_000 })

let database: TestDatabase
let stores: Store[]
beforeAll(async () => {
  database = await createTestDatabase()
  stores = [1, 2, 3].map(() => createStore(database.connect(1)))
})

async function statusOf(id: string): Promise<string> {
  const [row] = await database.sql<{ status: string }[]>`
    select status from ai_db.generations where id = ${id}`
  return row!.status
}

/** A generation that waits for calls another worker executes. */
async function waiting(here: Scenario, count: number): Promise<Running & { calls: string[] }> {
  const run = await here.running()
  const calls = await here.calls(run, count)
  expect(await here.store.putDownGeneration(run.id, run.attempt, 'tools')).toBe(true)
  return { ...run, calls }
}

/** How often a generation was resumed: each resume sets run_at, each claim adds to attempt. */
async function resumedOnce(here: Scenario, run: Running): Promise<void> {
  expect(await statusOf(run.id)).toBe('pending')
  const again = await here.claimOne('next')
  expect(again.attempt).toBe(run.attempt + 1)
}

describe('put down', () => {
  it('with an unsettled call waits, and says why', async () => {
    const here = scenario(database)
    const run = await waiting(here, 1)
    const [row] = await database.sql`
      select status, wait_reason, attempts_without_progress from ai_db.generations where id = ${run.id}`
    expect(row).toEqual({ status: 'waiting', wait_reason: 'tools', attempts_without_progress: 0 })
    expect(await here.claim('w')).toEqual([])
  })

  it('with everything settled goes on: a wait would have nothing to end it', async () => {
    const here = scenario(database)
    const run = await here.running()
    const calls = await here.calls(run, 2)
    await here.store.settleToolCalls(calls.map((id) => done(id)))
    expect(await here.store.putDownGeneration(run.id, run.attempt, 'tools')).toBe(false)
    expect(await statusOf(run.id)).toBe('generating')
  })

  it('behind a settle that has not committed waits for it, and goes on', async () => {
    const here = scenario(database)
    const run = await here.running()
    const [call] = await here.calls(run, 1)
    const settling = await openTransaction(database.url)
    await settling.store.settleToolCall(done(call!))
    const putting = await openTransaction(database.url)
    const down = putting.store.putDownGeneration(run.id, run.attempt, 'tools')
    await waitForLock(database.sql, putting.pid)
    await settling.commit()
    expect(await down).toBe(false)
    await putting.commit()
    expect(await statusOf(run.id)).toBe('generating')
  })

  it('before a settle that waits for it is resumed by that settle', async () => {
    const here = scenario(database)
    const run = await here.running()
    const [call] = await here.calls(run, 1)
    const putting = await openTransaction(database.url)
    expect(await putting.store.putDownGeneration(run.id, run.attempt, 'tools')).toBe(true)
    const settling = await openTransaction(database.url)
    const settled = settling.store.settleToolCall(done(call!))
    await waitForLock(database.sql, settling.pid)
    await putting.commit()
    await settled
    await settling.commit()
    await resumedOnce(here, run)
  })

  it('racing a settle is never stranded (100 rounds)', async () => {
    const here = scenario(database)
    for (let round = 0; round < 100; round += 1) {
      const run = await here.running()
      const [call] = await here.calls(run, 1)
      const [down] = await Promise.all([
        stores[0]!.putDownGeneration(run.id, run.attempt, 'tools'),
        stores[1]!.settleToolCall(done(call!)),
      ])
      expect(await statusOf(run.id)).toBe(down ? 'pending' : 'generating')
      await here.store.cancelGeneration(run.id)
    }
  })
})

describe('resume', () => {
  it('comes with the last of the calls, not before', async () => {
    const here = scenario(database)
    const run = await waiting(here, 3)
    await here.store.settleToolCalls(run.calls.slice(0, 2).map((id) => done(id)))
    expect(await statusOf(run.id)).toBe('waiting')
    await here.store.settleToolCall({
      id: run.calls[2]!,
      attempt: 1,
      outcome: { status: 'failed', error: 'no such file' },
    })
    await resumedOnce(here, run)
  })

  it('of two calls settled in two open transactions comes once, with the second commit', async () => {
    const here = scenario(database)
    const run = await waiting(here, 2)
    const [one, two] = await Promise.all([
      openTransaction(database.url),
      openTransaction(database.url),
    ])
    await one.store.settleToolCall(done(run.calls[0]!))
    const second = two.store.settleToolCall(done(run.calls[1]!))
    await waitForLock(database.sql, two.pid)
    await one.commit()
    expect(await statusOf(run.id)).toBe('waiting')
    await second
    await two.commit()
    await resumedOnce(here, run)
  })

  it('of two calls settled by plain SQL in two open transactions comes once as well', async () => {
    const here = scenario(database)
    const run = await waiting(here, 2)
    const [one, two] = await Promise.all([
      openTransaction(database.url),
      openTransaction(database.url),
    ])
    const settle = (sql: typeof one.sql, id: string) => sql`
      update ai_db.tool_calls set status = 'completed', completed_at = now() where id = ${id}`
    await settle(one.sql, run.calls[0]!)
    const second = settle(two.sql, run.calls[1]!).execute()
    await waitForLock(database.sql, two.pid)
    await one.commit()
    await second
    await two.commit()
    await resumedOnce(here, run)
  })

  it('is not lost when the first of two settles rolls back: the call is still open', async () => {
    const here = scenario(database)
    const run = await waiting(here, 2)
    const one = await openTransaction(database.url)
    await one.store.settleToolCall(done(run.calls[0]!))
    const two = await openTransaction(database.url)
    const second = two.store.settleToolCall(done(run.calls[1]!))
    await waitForLock(database.sql, two.pid)
    await one.rollback()
    await second
    await two.commit()
    expect(await statusOf(run.id)).toBe('waiting')
    await here.store.settleToolCall(done(run.calls[0]!))
    await resumedOnce(here, run)
  })

  it('of three calls settled at once comes once, never stranded (100 rounds)', async () => {
    const here = scenario(database)
    for (let round = 0; round < 100; round += 1) {
      const run = await waiting(here, 3)
      await Promise.all(stores.map((store, nth) => store.settleToolCall(done(run.calls[nth]!))))
      await resumedOnce(here, run)
      await here.store.cancelGeneration(run.id)
    }
  })
})

describe('cancel', () => {
  it('of a waiting generation leaves a late result nothing to settle, and nothing restarts', async () => {
    const here = scenario(database)
    const run = await waiting(here, 2)
    await here.store.cancelGeneration(run.id)
    expect(await here.store.settleToolCalls(run.calls.map((id) => done(id)))).toEqual([])
    await expect(here.store.settleToolCall(done(run.calls[0]!))).rejects.toMatchObject({
      code: 'FENCED',
    })
    expect(await statusOf(run.id)).toBe('cancelled')
    expect(await here.claim('w')).toEqual([])
  })

  it('against settles of the same calls ends without an error or a deadlock (100 rounds)', async () => {
    const here = scenario(database)
    for (let round = 0; round < 100; round += 1) {
      const run = await waiting(here, 3)
      await Promise.all([
        stores[0]!.settleToolCalls([done(run.calls[0]!), done(run.calls[1]!)]),
        stores[1]!.settleToolCalls([done(run.calls[2]!), done(run.calls[1]!)]),
        stores[2]!.cancelGeneration(run.id),
      ])
      expect(await statusOf(run.id)).toBe('cancelled')
      const states = await here.store.readToolCalls(run.id, 0)
      expect(states.filter((call) => ['pending', 'executing'].includes(call.status))).toEqual([])
    }
  })

  it('against expiry and recovery of the same calls ends without an error (60 rounds)', async () => {
    const here = scenario(database)
    for (let round = 0; round < 60; round += 1) {
      const run = await here.running()
      await here.calls(run, 2, 'executing')
      const late = await here.calls(run, 2, 'pending')
      await here.store.putDownGeneration(run.id, run.attempt, 'tools')
      await database.sql`
        update ai_db.tool_calls set expires_at = now() - interval '1 s', max_attempts = 1
        where generation_id = ${run.id}`
      await Promise.all([
        stores[0]!.expireWaits(),
        stores[1]!.recoverWorkers([run.workerId]),
        stores[2]!.cancelGeneration(run.id),
      ])
      expect(await statusOf(run.id)).toBe('cancelled')
      const states = await here.store.readToolCalls(run.id, 1)
      expect(states.map((call) => call.id)).toEqual(late)
      expect(states.filter((call) => call.status === 'pending')).toEqual([])
    }
  })
})

describe('a question to another agent', () => {
  /** `one` asks `two` and waits; the question is `two`'s generation. */
  async function asking(one: Scenario, two: Scenario) {
    const run = await one.running()
    const [call] = await one.store.recordStep({
      ...{ generationId: run.id, attempt: run.attempt, workerId: run.workerId, step: 0 },
      ...{ text: '', chunkIndex: 0, inputTokens: 0, outputTokens: 0, model: null },
      providerResponseId: null,
      toolCalls: [
        {
          providerCallId: `ask-${run.id}`,
          name: 'ask',
          args: {},
          status: 'pending',
          ask: { agent: two.agent, content: 'how many?' },
        },
      ],
    })
    await one.store.putDownGeneration(run.id, run.attempt, 'tools')
    return { run, call: call!, asked: await two.claimOne('other') }
  }

  it('is settled by the reply, in its commit, and resumes the asker once', async () => {
    const [one, two] = [scenario(database), scenario(database)]
    const { run, call, asked } = await asking(one, two)
    const replying = await openTransaction(database.url)
    await replying.store.settleGeneration(answer(asked, 'seven'))
    expect(await statusOf(run.id)).toBe('waiting')
    await replying.commit()
    expect(await one.store.readToolCalls(run.id, 0)).toMatchObject([
      { id: call.id, status: 'completed', result: { response: 'seven' } },
    ])
    await resumedOnce(one, run)
  })

  it('fails when the other agent fails, so that the asker does not wait for ever', async () => {
    const [one, two] = [scenario(database), scenario(database)]
    const { run, asked } = await asking(one, two)
    await two.store.cancelGeneration(asked.id)
    expect(await one.store.readToolCalls(run.id, 0)).toMatchObject([{ status: 'failed' }])
    await resumedOnce(one, run)
  })

  it('cancelled while the other agent replies ends without an error or a deadlock (60 rounds)', async () => {
    const [one, two] = [scenario(database), scenario(database)]
    for (let round = 0; round < 60; round += 1) {
      const { run, asked } = await asking(one, two)
      await Promise.all([
        stores[0]!.settleGeneration(answer(asked)),
        stores[1]!.cancelGeneration(run.id),
      ])
      expect(await statusOf(run.id)).toBe('cancelled')
      expect(await statusOf(asked.id)).toBe('completed')
    }
  })
})

describe('expiry', () => {
  it('fails a call nobody executed in time, says so, and resumes what waited for it', async () => {
    const here = scenario(database)
    const run = await here.running()
    const [call] = await here.calls(run, 1, 'pending')
    await here.store.putDownGeneration(run.id, run.attempt, 'tools')
    await database.sql`update ai_db.tool_calls set expires_at = now() + interval '1 h' where id = ${call!}`
    expect(await here.store.expireWaits()).toEqual({ expired: 0, woken: 0 })
    await database.sql`update ai_db.tool_calls set expires_at = now() - interval '1 s' where id = ${call!}`
    expect(await here.store.expireWaits()).toEqual({ expired: 1, woken: 0 })
    expect(await here.store.readToolCalls(run.id, 0)).toMatchObject([
      { status: 'failed', error: expect.stringContaining('nobody executed it') as string },
    ])
    await resumedOnce(here, run)
  })

  it('leaves a call alone that is being executed: its worker answers for it', async () => {
    const here = scenario(database)
    const run = await waiting(here, 1)
    await database.sql`
      update ai_db.tool_calls set expires_at = now() - interval '1 s' where generation_id = ${run.id}`
    expect(await here.store.expireWaits()).toEqual({ expired: 0, woken: 0 })
    expect(await statusOf(run.id)).toBe('waiting')
  })

  it('wakes a generation whose timer is due, and none before', async () => {
    const here = scenario(database)
    const run = await here.running()
    await database.sql`
      update ai_db.generations set status = 'waiting', wait_reason = 'timer', run_at = now() + interval '1 h'
      where id = ${run.id}`
    expect(await here.store.expireWaits()).toEqual({ expired: 0, woken: 0 })
    await database.sql`update ai_db.generations set run_at = now() where id = ${run.id}`
    expect(await here.store.expireWaits()).toEqual({ expired: 0, woken: 1 })
    await resumedOnce(here, run)
  })

  it('of the same rows by three at once happens once', async () => {
    const here = scenario(database)
    for (let round = 0; round < 20; round += 1) {
      const run = await here.running()
      const [call] = await here.calls(run, 1, 'pending')
      await here.store.putDownGeneration(run.id, run.attempt, 'tools')
      await database.sql`
        update ai_db.tool_calls set expires_at = now() - interval '1 s' where id = ${call!}`
      const outcomes = await Promise.all(stores.map((store) => store.expireWaits()))
      expect(outcomes.reduce((sum, { expired }) => sum + expired, 0)).toBe(1)
      await resumedOnce(here, run)
      await here.store.cancelGeneration(run.id)
    }
  })
})
