/**
 * Approvals in the database: nobody executes without the quorum, whoever writes; a vote is bound to arguments and
 * actor; and of any two that race, none strands a generation or runs a call twice.
 */
import { beforeAll, describe, expect, it, vi } from 'vitest'
import { cancelGeneration } from '../../src/sessions/cancel-generation.js'
import { approveToolCall, denyToolCall } from '../../src/sessions/vote-on-tool-call.js'
import { holdConnection, openTransaction, waitForLock } from '../support/connections.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { pollUntil } from '../support/poll-until.js'
import { done, scenario, type Running, type Scenario } from './rows.js'

vi.setConfig({ testTimeout: 90_000 })

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})

interface Gated extends Running {
  call: string
  argsHash: string
}

/** A running generation with one call that needs so many approvals. */
async function gated(here: Scenario, approvalsRequired = 1, workerOnly = true): Promise<Gated> {
  const run = await here.running()
  const [call] = await here.store.recordStep({
    ...{ generationId: run.id, attempt: run.attempt, workerId: run.workerId, step: 0 },
    ...{ text: '', chunkIndex: 0, inputTokens: 0, outputTokens: 0, model: null },
    providerResponseId: null,
    toolCalls: [
      {
        ...{ providerCallId: `${run.id}-call`, name: `delete-${here.agent}`, args: { file: 'a' } },
        ...{ status: 'pending', approvalsRequired, workerOnly, expiresInMs: 3_600_000 },
      },
    ],
  })
  const { args_hash: argsHash } = await callOf(call!.id)
  return { ...run, call: call!.id, argsHash: argsHash as string }
}

async function waiting(here: Scenario, approvalsRequired = 1): Promise<Gated> {
  const run = await gated(here, approvalsRequired)
  expect(await here.store.putDownGeneration(run.id, run.attempt, 'tools', [run.call])).toBe(true)
  return run
}

async function callOf(id: string): Promise<Record<string, unknown>> {
  const [row] = await database.sql`select * from ai_db.tool_calls where id = ${id}`
  return row!
}

async function generationOf(id: string): Promise<Record<string, unknown>> {
  const [row] = await database.sql`select * from ai_db.generations where id = ${id}`
  return row!
}

const trail = async (call: string) =>
  (
    await database.sql<{ line: string }[]>`
      select action || ' ' || actor_id as line from ai_db.approvals
      where tool_call_id = ${call} order by created_at, id`
  ).map(({ line }) => line)

const vote = (run: Gated, actorId: string, more: { id?: string; reason?: string } = {}) => ({
  sessionId: run.sessionId,
  toolCallId: run.call,
  actorId,
  argsHash: run.argsHash,
  ...more,
})

const execute = (run: Gated, sql = database.sql) => sql`
  update ai_db.tool_calls set status = 'executing', attempt = attempt + 1, worker_id = 'w'
  where id = ${run.call}`

describe('a call that needs approval', () => {
  it('is asked for in the trail, offered to nobody, and its generation waits for people', async () => {
    const here = scenario(database)
    const run = await gated(here, 1, false)
    expect(await trail(run.call)).toEqual([`requested ${here.agent}`])
    const tools = [`delete-${here.agent}`]
    expect(await here.store.claimToolCalls({ workerId: 'w', tools, limit: 9 })).toEqual([])
    expect(await here.store.claimOwnToolCalls([run.call], 'w')).toEqual([])
    expect(await here.store.putDownGeneration(run.id, run.attempt, 'tools')).toBe(true)
    expect(await generationOf(run.id)).toMatchObject({ status: 'waiting', wait_reason: 'approval' })
  })

  it('cannot be executed by any writer, be born executing, or have its bar lowered', async () => {
    const here = scenario(database)
    const run = await gated(here)
    const refused = { code: 'AI002' }
    await expect(execute(run)).rejects.toMatchObject(refused)
    const changes = ['approvals_required = 0', 'approved_at = now()']
    for (const change of changes) {
      const changed = database.sql.unsafe(
        `update ai_db.tool_calls set ${change} where id = '${run.call}'`,
      )
      await expect(changed).rejects.toMatchObject(refused)
    }
    const born = (columns: string, values: string) =>
      database.sql.unsafe(`
        insert into ai_db.tool_calls (generation_id, session_id, step, index, provider_call_id, name, args,
          approvals_required, ${columns})
        values ('${run.id}', '${run.sessionId}', 1, 0, 'x', 'delete', '{}', 1, ${values})`)
    await expect(born('status, attempt, worker_id', `'executing', 1, 'w'`)).rejects.toMatchObject(
      refused,
    )
    await expect(born('approved_at', 'now()')).rejects.toMatchObject(refused)
    // A forged trail does not help either: these arguments were not approved.
    await database.sql`
      insert into ai_db.approvals (tool_call_id, session_id, action, actor_id, args_hash)
      values (${run.call}, ${run.sessionId}, 'requested', 'eve', ${run.argsHash})`
    await expect(execute(run)).rejects.toMatchObject(refused)
  })

  it('runs once people have approved it, also by a vote of plain SQL', async () => {
    const here = scenario(database)
    const run = await gated(here)
    await database.sql`
      insert into ai_db.approvals (tool_call_id, session_id, action, actor_id, args_hash)
      values (${run.call}, ${run.sessionId}, 'approved', 'ann', ${run.argsHash})`
    expect((await callOf(run.call)).approved_at).not.toBeNull()
    expect(await here.store.claimOwnToolCalls([run.call], 'w')).toHaveLength(1)
  })

  it('with two approvals required wants two people, not one twice', async () => {
    const here = scenario(database)
    const run = await waiting(here, 2)
    expect(await approveToolCall(database.db, vote(run, 'ann'))).toMatchObject({
      status: 'pending',
    })
    await approveToolCall(database.db, vote(run, 'ann'))
    expect((await callOf(run.call)).approved_at).toBeNull()
    await expect(execute(run)).rejects.toMatchObject({ code: 'AI002' })
    expect(await generationOf(run.id)).toMatchObject({ status: 'waiting' })
    await approveToolCall(database.db, vote(run, 'bob'))
    expect(await generationOf(run.id)).toMatchObject({ status: 'pending', wait_reason: null })
    expect(await here.store.claimOwnToolCalls([run.call], 'w')).toHaveLength(1)
    expect(await trail(run.call)).toEqual([
      `requested ${here.agent}`,
      'approved ann',
      'approved bob',
    ])
  })

  it('is not approved any more when its arguments change, and old votes count for nothing', async () => {
    const here = scenario(database)
    const run = await gated(here)
    await approveToolCall(database.db, vote(run, 'ann'))
    await database.sql`update ai_db.tool_calls set args = '{"file": "b"}' where id = ${run.call}`
    expect((await callOf(run.call)).approved_at).toBeNull()
    await expect(execute(run)).rejects.toMatchObject({ code: 'AI002' })
    expect(await here.store.claimOwnToolCalls([run.call], 'w')).toEqual([])
    await expect(approveToolCall(database.db, vote(run, 'bob'))).rejects.toMatchObject({
      code: 'STALE_APPROVAL',
      field: 'argsHash',
    })
    const argsHash = (await callOf(run.call)).args_hash as string
    await approveToolCall(database.db, vote({ ...run, argsHash }, 'ann'))
    expect(await here.store.claimOwnToolCalls([run.call], 'w')).toHaveLength(1)
  })

  it('recovered from a dead worker keeps its approval', async () => {
    const here = scenario(database)
    const run = await gated(here)
    await approveToolCall(database.db, vote(run, 'ann'))
    await here.store.claimOwnToolCalls([run.call], run.workerId)
    await here.store.recoverWorkers([run.workerId])
    expect(await callOf(run.call)).toMatchObject({ status: 'pending', attempt: 1 })
    expect(await here.store.claimOwnToolCalls([run.call], 'w')).toMatchObject([{ attempt: 2 }])
  })
})

describe('a vote', () => {
  it('returns the id of the transaction that touched the call, also when repeated', async () => {
    const here = scenario(database)
    const run = await gated(here, 2)
    const cast = vote(run, 'ann', { id: `${run.call}-v` })
    const writer = async () => {
      const [row] = await database.sql<{ xmin: string }[]>`
        select xmin::text from ai_db.tool_calls where id = ${run.call}`
      return Number(row!.xmin)
    }
    const first = await approveToolCall(database.db, cast)
    expect(await writer()).toBe(first.txid)
    const again = await approveToolCall(database.db, cast)
    expect(await writer()).toBe(again.txid)
    expect(again.txid).not.toBe(first.txid)
    expect(await trail(run.call)).toHaveLength(2)
  })

  it('repeated after the call has ended still answers like the first time; another vote does not', async () => {
    const here = scenario(database)
    const run = await gated(here)
    const cast = vote(run, 'ann', { id: `${run.call}-v` })
    await approveToolCall(database.db, cast)
    await here.store.claimOwnToolCalls([run.call], 'w')
    expect(await approveToolCall(database.db, cast)).toMatchObject({ status: 'executing' })
    const late = { code: 'ILLEGAL_TRANSITION', field: 'toolCallId' }
    await expect(denyToolCall(database.db, vote(run, 'bob'))).rejects.toMatchObject(late)
    await here.store.settleToolCall(done(run.call))
    expect(await approveToolCall(database.db, cast)).toMatchObject({ status: 'completed' })
    await expect(approveToolCall(database.db, vote(run, 'bob'))).rejects.toMatchObject(late)
    await expect(denyToolCall(database.db, vote(run, 'ann'))).rejects.toMatchObject(late)
  })

  it('is one an actor: who approved cannot deny, who votes again by another id repeats', async () => {
    const here = scenario(database)
    const run = await gated(here, 2)
    await approveToolCall(database.db, vote(run, 'ann'))
    await expect(denyToolCall(database.db, vote(run, 'ann'))).rejects.toMatchObject({
      code: 'ILLEGAL_TRANSITION',
    })
    const twice = database.sql`
      insert into ai_db.approvals (tool_call_id, session_id, action, actor_id, args_hash)
      values (${run.call}, ${run.sessionId}, 'approved', 'ann', ${run.argsHash})`
    await expect(twice).rejects.toMatchObject({ constraint_name: 'approvals_vote_key' })
    await expect(
      approveToolCall(database.db, { ...vote(run, 'bob'), id: 'taken' }),
    ).resolves.toMatchObject({ status: 'pending' })
    const other = await gated(here)
    await expect(
      approveToolCall(database.db, { ...vote(other, 'bob'), id: 'taken' }),
    ).rejects.toMatchObject({ code: 'DUPLICATE_ID', field: 'id' })
  })

  it('from another session, on no call, or on one that needs none is refused', async () => {
    const here = scenario(database)
    const run = await gated(here)
    const sessionId = await here.session()
    const none = { code: 'NOT_FOUND', field: 'toolCallId' }
    await expect(
      approveToolCall(database.db, { ...vote(run, 'eve'), sessionId }),
    ).rejects.toMatchObject(none)
    await expect(
      denyToolCall(database.db, { ...vote(run, 'eve'), toolCallId: 'nothing' }),
    ).rejects.toMatchObject(none)
    const free = await here.running()
    const [call] = await here.calls(free, 1, 'pending')
    const argsHash = (await callOf(call!)).args_hash as string
    const needless = { sessionId: free.sessionId, toolCallId: call!, actorId: 'eve', argsHash }
    await expect(approveToolCall(database.db, needless)).rejects.toMatchObject({
      code: 'ILLEGAL_TRANSITION',
    })
    expect(await callOf(run.call)).toMatchObject({ status: 'pending', approved_at: null })
  })

  it('against it fails the call with its reason, and lets the generation go on', async () => {
    const here = scenario(database)
    const run = await waiting(here, 2)
    await approveToolCall(database.db, vote(run, 'ann'))
    const denied = await denyToolCall(database.db, vote(run, 'bob', { reason: 'too risky' }))
    expect(denied.status).toBe('failed')
    expect(await callOf(run.call)).toMatchObject({
      status: 'failed',
      error: 'denied by bob: too risky',
    })
    expect(await generationOf(run.id)).toMatchObject({ status: 'pending' })
  })

  it('in a host’s transaction that is rolled back was never cast', async () => {
    const here = scenario(database)
    const run = await waiting(here)
    const host = await openTransaction(database.url)
    await approveToolCall(host.db, vote(run, 'ann'))
    await host.rollback()
    expect(await trail(run.call)).toHaveLength(1)
    expect(await generationOf(run.id)).toMatchObject({ status: 'waiting' })
  })

  it('that completes the quorum rings sleeping executors of the tool and the run that still waits', async () => {
    const here = scenario(database)
    const run = await gated(here, 1, false)
    const executor = await here.worker({ agents: [], tools: [`delete-${here.agent}`] })
    await database.sql`update ai_db.workers set sleeping = true where id = ${executor}`
    const heard: string[] = []
    const listening = await holdConnection(database.url)
    await listening.sql.listen('ai_db', (payload) => heard.push(payload))
    await approveToolCall(database.db, vote(run, 'ann'))
    await pollUntil('both rings', () =>
      [`tool-call:delete-${here.agent}`, `settled:${run.id}`].every((ring) => heard.includes(ring)),
    )
  })
})

describe('expiry', () => {
  it('of a call nobody approved fails it, and says so in the trail', async () => {
    const here = scenario(database)
    const run = await waiting(here)
    await database.sql`update ai_db.tool_calls set expires_at = 'epoch' where id = ${run.call}`
    await here.store.expireWaits()
    expect(await callOf(run.call)).toMatchObject({
      status: 'failed',
      error: 'nobody approved it in time',
    })
    expect(await trail(run.call)).toEqual([`requested ${here.agent}`, `expired ${here.agent}`])
    expect(await generationOf(run.id)).toMatchObject({ status: 'pending' })
    await expect(approveToolCall(database.db, vote(run, 'ann'))).rejects.toMatchObject({
      code: 'ILLEGAL_TRANSITION',
    })
  })

  it('begins anew with the approval: a call approved at the last moment is not too late to run', async () => {
    const here = scenario(database)
    const run = await waiting(here)
    await database.sql`
      update ai_db.tool_calls set created_at = now() - interval '1 hour', expires_at = now() + interval '1 second'
      where id = ${run.call}`
    await approveToolCall(database.db, vote(run, 'ann'))
    const [row] = await database.sql<{ later: boolean }[]>`
      select expires_at > now() + interval '59 minutes' as later from ai_db.tool_calls where id = ${run.call}`
    expect(row!.later).toBe(true)
  })
})

describe('wait_reason', () => {
  it('becomes approval when the last sibling that needs no people has settled', async () => {
    const here = scenario(database)
    const run = await gated(here)
    await database.sql`
      insert into ai_db.tool_calls (id, generation_id, session_id, step, index, provider_call_id, name, args, status,
        attempt, worker_id)
      values (${`${run.id}-b`}, ${run.id}, ${run.sessionId}, 0, 1, 'b', 'lookup', '{}', 'executing', 1, 'w')`
    await here.store.putDownGeneration(run.id, run.attempt, 'tools', [run.call])
    expect(await generationOf(run.id)).toMatchObject({ wait_reason: 'tools' })
    await here.store.settleToolCall(done(`${run.id}-b`))
    expect(await generationOf(run.id)).toMatchObject({ status: 'waiting', wait_reason: 'approval' })
    await approveToolCall(database.db, vote(run, 'ann'))
    expect(await generationOf(run.id)).toMatchObject({ status: 'pending', wait_reason: null })
  })
})

describe('two at once', () => {
  it('a put-down behind an approval that has not committed sees it, and goes on', async () => {
    const here = scenario(database)
    const run = await gated(here)
    const voting = await openTransaction(database.url)
    await approveToolCall(voting.db, vote(run, 'ann'))
    const putting = await openTransaction(database.url)
    const down = putting.store.putDownGeneration(run.id, run.attempt, 'tools', [run.call])
    await waitForLock(database.sql, putting.pid)
    await voting.commit()
    expect(await down).toBe(false)
    await putting.commit()
    expect(await generationOf(run.id)).toMatchObject({ status: 'generating' })
  })

  it('an approval behind a put-down that has not committed wakes what was put down', async () => {
    const here = scenario(database)
    const run = await gated(here)
    const putting = await openTransaction(database.url)
    expect(await putting.store.putDownGeneration(run.id, run.attempt, 'tools', [run.call])).toBe(
      true,
    )
    const voting = await openTransaction(database.url)
    const voted = approveToolCall(voting.db, vote(run, 'ann'))
    await waitForLock(database.sql, voting.pid)
    await putting.commit()
    await voted
    await voting.commit()
    expect(await generationOf(run.id)).toMatchObject({ status: 'pending' })
  })

  it('a denial behind an approval of one waits for it: whichever is first stands', async () => {
    const here = scenario(database)
    const run = await waiting(here)
    const approving = await openTransaction(database.url)
    await approveToolCall(approving.db, vote(run, 'ann'))
    const denying = await openTransaction(database.url)
    const denied = denyToolCall(denying.db, vote(run, 'bob'))
    await waitForLock(database.sql, denying.pid)
    await approving.commit()
    // Not taken up yet, so it can still be stopped.
    expect((await denied).status).toBe('failed')
    await denying.commit()
    expect(await here.store.claimOwnToolCalls([run.call], 'w')).toEqual([])
    expect(await generationOf(run.id)).toMatchObject({ status: 'pending' })
  })

  it('an approval behind a cancel is refused: there is nothing left to approve', async () => {
    const here = scenario(database)
    const run = await waiting(here)
    const cancelling = await openTransaction(database.url)
    await cancelGeneration(cancelling.db, { sessionId: run.sessionId, generationId: run.id })
    const voting = await openTransaction(database.url)
    const refused = expect(approveToolCall(voting.db, vote(run, 'ann'))).rejects.toMatchObject({
      code: 'ILLEGAL_TRANSITION',
    })
    await waitForLock(database.sql, voting.pid)
    await cancelling.commit()
    await refused
    await voting.rollback()
    expect(await callOf(run.call)).toMatchObject({ status: 'cancelled' })
  })

  it('the last two approvals in two open transactions wake the generation once', async () => {
    const here = scenario(database)
    const run = await waiting(here, 2)
    const one = await openTransaction(database.url)
    await approveToolCall(one.db, vote(run, 'ann'))
    const two = await openTransaction(database.url)
    const second = approveToolCall(two.db, vote(run, 'bob'))
    await waitForLock(database.sql, two.pid)
    await one.commit()
    await second
    await two.commit()
    expect((await callOf(run.call)).approved_at).not.toBeNull()
    expect((await here.claimOne('next')).attempt).toBe(run.attempt + 1)
  })

  it.each(['the same actor', 'another actor'])(
    'two tabs of %s, a put-down and two workers strand nothing and run it once (60 rounds)',
    async (who) => {
      const here = scenario(database)
      const [tab1, tab2, w1, w2] = [1, 1, 1, 1].map(() => database.connect(1))
      const stores = [w1!, w2!].map((db) => scenario({ ...database, db }).store)
      for (let round = 0; round < 60; round += 1) {
        const run = await gated(here)
        const second = who === 'the same actor' ? 'ann' : 'bob'
        const votes = [
          approveToolCall(tab1!, vote(run, 'ann')),
          approveToolCall(tab2!, vote(run, second)),
        ]
        const claims = stores.map((store) => store.claimOwnToolCalls([run.call], 'w'))
        const down = here.store.putDownGeneration(run.id, run.attempt, 'tools', [run.call])
        const cast = await Promise.allSettled(votes)
        for (const end of cast) {
          if (end.status === 'rejected')
            expect(end.reason).toMatchObject({ code: 'ILLEGAL_TRANSITION' })
        }
        expect(cast.some((end) => end.status === 'fulfilled')).toBe(true)
        const early = (await Promise.all(claims)).flat()
        const late = await here.store.claimOwnToolCalls([run.call], 'w')
        expect([...early, ...late]).toHaveLength(1)
        await here.store.settleToolCall(done(run.call))
        const { status } = await generationOf(run.id)
        expect(status).toBe((await down) ? 'pending' : 'generating')
        await here.store.cancelGeneration(run.id)
      }
    },
  )

  it('an approval, a denial, a cancel and an expiry end without a deadlock (60 rounds)', async () => {
    const here = scenario(database)
    const [tab1, tab2, tab3, worker] = [1, 1, 1, 1].map(() => database.connect(1))
    const expiring = scenario({ ...database, db: worker! }).store
    for (let round = 0; round < 60; round += 1) {
      const run = await waiting(here)
      await database.sql`update ai_db.tool_calls set expires_at = 'epoch' where id = ${run.call}`
      const ends = await Promise.allSettled([
        approveToolCall(tab1!, vote(run, 'ann')),
        denyToolCall(tab2!, vote(run, 'bob')),
        cancelGeneration(tab3!, { sessionId: run.sessionId, generationId: run.id }),
        expiring.expireWaits(),
      ])
      for (const end of ends) {
        if (end.status === 'rejected')
          expect(end.reason).toMatchObject({ code: 'ILLEGAL_TRANSITION' })
      }
      expect(await generationOf(run.id)).toMatchObject({ status: 'cancelled' })
      expect(['failed', 'cancelled']).toContain((await callOf(run.call)).status)
    }
  })
})
