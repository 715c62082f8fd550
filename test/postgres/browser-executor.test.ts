/** Executors without a database connection: what they may claim, how long they hold it, and what becomes of them. */
import { beforeAll, describe, expect, it } from 'vitest'
import { claimToolCallsFor } from '../../src/sessions/claim-tool-calls-for.js'
import { renewExecutor } from '../../src/sessions/renew-executor.js'
import { settleToolCallFor } from '../../src/sessions/settle-tool-call-for.js'
import { approveToolCall } from '../../src/sessions/vote-on-tool-call.js'
import { holdConnection, openTransaction } from '../support/connections.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { scenario, type Running, type Scenario } from './rows.js'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})

const claim = (run: { sessionId: string }, executorId = 'tab', more = {}) =>
  claimToolCallsFor(database.db, {
    ...{ sessionId: run.sessionId, executorId, tools: ['lookup'], limit: 9 },
    ...more,
  })

const settle = (run: { sessionId: string }, toolCallId: string, more = {}) =>
  settleToolCallFor(database.db, {
    ...{ sessionId: run.sessionId, toolCallId, executorId: 'tab', attempt: 1 },
    ...{ outcome: { status: 'completed' as const, result: { ok: true } } },
    ...more,
  })

async function callOf(id: string): Promise<Record<string, unknown>> {
  const [row] = await database.sql`select * from ai_db.tool_calls where id = ${id}`
  return row!
}

const idsOf = (claimed: Awaited<ReturnType<typeof claim>>) => claimed.toolCalls.map(({ id }) => id)

async function waiting(here: Scenario): Promise<Running & { call: string }> {
  const run = await here.running()
  const [call] = await here.calls(run, 1, 'pending')
  await here.store.putDownGeneration(run.id, run.attempt, 'tools')
  return { ...run, call: call! }
}

const lapse = (executorId: string) => database.sql`
  update ai_db.workers set lease_expires_at = now() - interval '1 second' where id = ${`browser:${executorId}`}`

describe('a claim', () => {
  it('takes pending calls of its session and its tools, as a worker with a lease', async () => {
    const here = scenario(database)
    const run = await waiting(here)
    const other = await waiting(here)
    expect(await claim(run, 'tab', { tools: ['other'] })).toMatchObject({ toolCalls: [] })
    const claimed = await claim(run)
    expect(claimed.toolCalls).toEqual([
      {
        id: run.call,
        generationId: run.id,
        name: 'lookup',
        args: { q: 1 },
        attempt: 1,
        timeoutMs: null,
      },
    ])
    expect(await callOf(run.call)).toMatchObject({ status: 'executing', worker_id: 'browser:tab' })
    expect(await callOf(other.call)).toMatchObject({ status: 'pending' })
    expect(await claim(run, 'tab2')).toMatchObject({ toolCalls: [] })
    const [row] =
      await database.sql`select agents, sleeping from ai_db.workers where id = 'browser:tab'`
    expect(row).toEqual({ agents: [], sleeping: false })
  })

  it('of two tabs at once gives each call to one of them (40 rounds)', async () => {
    const here = scenario(database)
    const tabs = ['a', 'b', 'c'].map((name) => ({ name, db: database.connect(1) }))
    for (let round = 0; round < 40; round += 1) {
      const run = await here.running()
      const calls = await here.calls(run, 2, 'pending')
      const claims = await Promise.all(
        tabs.map(({ name, db }) =>
          claimToolCallsFor(db, {
            ...{ sessionId: run.sessionId, executorId: name, tools: ['lookup'], limit: 1 },
          }),
        ),
      )
      const taken = claims.flatMap(idsOf)
      expect(new Set(taken).size).toBe(taken.length)
      const rest = idsOf(await claim(run, 'late'))
      expect([...taken, ...rest].toSorted()).toEqual(calls.toSorted())
    }
  })

  it('is never offered what only a worker may run, nor what lacks approvals', async () => {
    const here = scenario(database)
    const run = await here.running()
    const step = {
      ...{ generationId: run.id, attempt: run.attempt, workerId: run.workerId, step: 0, text: '' },
      ...{ chunkIndex: 0, inputTokens: 0, outputTokens: 0, model: null, providerResponseId: null },
    }
    const call = { name: 'lookup', args: {}, status: 'pending' as const }
    const [local, asked, gated] = await here.store.recordStep({
      ...step,
      toolCalls: [
        { ...call, providerCallId: `${run.id}-l`, workerOnly: true },
        { ...call, providerCallId: `${run.id}-a`, ask: { agent: 'other', content: 'well?' } },
        { ...call, providerCallId: `${run.id}-g`, approvalsRequired: 1 },
      ],
    })
    expect(idsOf(await claim(run))).toEqual([])
    expect(
      await here.store.claimToolCalls({ workerId: 'w', tools: ['lookup'], limit: 99 }),
    ).not.toContainEqual(expect.objectContaining({ id: local!.id }))
    const argsHash = (await callOf(gated!.id)).args_hash as string
    const vote = { sessionId: run.sessionId, toolCallId: gated!.id, actorId: 'ann', argsHash }
    await approveToolCall(database.db, vote)
    expect(idsOf(await claim(run))).toEqual([gated!.id])
    expect(await callOf(asked!.id)).toMatchObject({ status: 'pending' })
  })

  it('asked again and again rings no worker: it is a lease, not a newcomer', async () => {
    const here = scenario(database)
    const run = await waiting(here)
    await claim(run, 'quiet')
    const heard: string[] = []
    const listening = await holdConnection(database.url)
    await listening.sql.listen('ai_db', (payload) => heard.push(payload))
    for (let n = 0; n < 3; n += 1) await claim(run, 'quiet')
    // What is heard comes in order: behind this nothing of those claims can come.
    await database.sql`select pg_notify('ai_db', 'end')`
    await expect.poll(() => heard).toContain('end')
    expect(heard).toEqual(['end'])
  })
})

describe('a settle', () => {
  it('makes the result a row and wakes the generation; repeated, it answers like the first time', async () => {
    const here = scenario(database)
    const run = await waiting(here)
    await claim(run)
    const first = await settle(run, run.call)
    expect(first.repeated).toBe(false)
    expect(await callOf(run.call)).toMatchObject({ status: 'completed', result: { ok: true } })
    expect((await here.claimOne('w')).id).toBe(run.id)
    const again = await settle(run, run.call)
    expect(again.repeated).toBe(true)
    const [row] = await database.sql<{ xmin: string }[]>`
      select xmin::text from ai_db.tool_calls where id = ${run.call}`
    expect(Number(row!.xmin)).toBe(again.txid)
  })

  it('as failed keeps the reason, for the model', async () => {
    const here = scenario(database)
    const run = await waiting(here)
    await claim(run)
    await settle(run, run.call, { outcome: { status: 'failed', error: 'no camera' } })
    expect(await callOf(run.call)).toMatchObject({ status: 'failed', error: 'no camera' })
  })

  it('by another tab, at another attempt, unclaimed, or from another session is refused', async () => {
    const here = scenario(database)
    const run = await waiting(here)
    await expect(settle(run, run.call)).rejects.toMatchObject({ code: 'FENCED' })
    await claim(run)
    const fenced = { code: 'FENCED' }
    await expect(settle(run, run.call, { executorId: 'tab2' })).rejects.toMatchObject(fenced)
    await expect(settle(run, run.call, { attempt: 2 })).rejects.toMatchObject(fenced)
    const none = { code: 'NOT_FOUND', field: 'toolCallId' }
    const elsewhere = { sessionId: await here.session() }
    await expect(settle(elsewhere, run.call)).rejects.toMatchObject(none)
    await expect(settle(run, 'nothing')).rejects.toMatchObject(none)
    expect(await callOf(run.call)).toMatchObject({ status: 'executing' })
  })

  it('of a call whose generation was cancelled meanwhile is refused: nobody waits for it', async () => {
    const here = scenario(database)
    const run = await waiting(here)
    await claim(run)
    await here.store.cancelGeneration(run.id)
    await expect(settle(run, run.call)).rejects.toMatchObject({ code: 'FENCED' })
    expect(await callOf(run.call)).toMatchObject({ status: 'cancelled', result: null })
  })

  it('of what Postgres cannot store, or of too much, is refused before a statement', async () => {
    const here = scenario(database)
    const run = await waiting(here)
    await claim(run)
    for (const result of ['x'.repeat(1_048_577), 10n]) {
      await expect(
        settle(run, run.call, { outcome: { status: 'completed', result } }),
      ).rejects.toMatchObject({ code: 'INVALID_INPUT', field: 'outcome.result' })
    }
    await settle(run, run.call, { outcome: { status: 'completed', result: 'nul \0 here' } })
    expect(await callOf(run.call)).toMatchObject({ result: 'nul \ufffd here' })
  })

  it('commits with the host’s transaction or not at all', async () => {
    const here = scenario(database)
    const run = await waiting(here)
    await claim(run)
    const host = await openTransaction(database.url)
    await settleToolCallFor(host.db, {
      ...{ sessionId: run.sessionId, toolCallId: run.call, executorId: 'tab', attempt: 1 },
      outcome: { status: 'completed', result: 1 },
    })
    await host.rollback()
    expect(await callOf(run.call)).toMatchObject({ status: 'executing' })
  })
})

describe('a lease', () => {
  it('that is renewed keeps the calls; one that has run out gives them to the next tab', async () => {
    const here = scenario(database)
    const run = await waiting(here)
    await claim(run, 'gone')
    await lapse('gone')
    expect(await renewExecutor(database.db, { executorId: 'gone' })).toMatchObject({
      renewed: true,
    })
    await here.store.recoverWorkers()
    expect(await callOf(run.call)).toMatchObject({ status: 'executing' })
    await lapse('gone')
    await here.store.recoverWorkers()
    expect(await callOf(run.call)).toMatchObject({ status: 'pending', attempt: 1 })
    expect(await renewExecutor(database.db, { executorId: 'gone' })).toMatchObject({
      renewed: false,
    })
    const claimed = await claim(run, 'next')
    expect(claimed.toolCalls).toMatchObject([{ id: run.call, attempt: 2 }])
    const late = settle(run, run.call, { executorId: 'gone' })
    await expect(late).rejects.toMatchObject({ code: 'FENCED' })
    await settle(run, run.call, { executorId: 'next', attempt: 2 })
  })
})
