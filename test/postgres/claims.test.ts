/** Claims: who gets a generation, in which order, with which inbox, and that no message is left without one. */
import { beforeAll, describe, expect, it } from 'vitest'
import { createStore } from '../../src/claims/store.js'
import {
  drivers,
  holdConnection,
  openTransaction,
  waitForLock,
  type OpenTransaction,
} from '../support/connections.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { answer, scenario, type Scenario } from './rows.js'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})

const clients = (count: number) =>
  Array.from({ length: count }, () => createStore(database.connect(1)))

/** A message written by plain SQL, as psql or another service would. */
const insertMessage = (tx: OpenTransaction, sessionId: string, agent: string, id: string) =>
  tx.sql`
    insert into ai_db.messages (id, session_id, role, actor_id, target_agent, content)
    values (${id}, ${sessionId}, 'user', 'ann', ${agent}, 'late')`

async function generationsOf(sessionId: string) {
  return database.sql<{ id: string; status: string; attempt: number; inbox: string[] }[]>`
    select id, status, attempt, inbox from ai_db.generations
    where session_id = ${sessionId} order by created_at, id`
}

async function unprocessed(sessionId: string): Promise<string[]> {
  const rows = await database.sql<{ id: string }[]>`
    select id from ai_db.messages where session_id = ${sessionId} and not processed order by seq`
  return rows.map((row) => row.id)
}

describe('many workers', () => {
  it('one generation is claimed once although four connections ask at the same moment', async () => {
    const here = scenario(database)
    const stores = clients(4)
    for (let round = 0; round < 60; round += 1) {
      await here.say(await here.session())
      const claims = await Promise.all(
        stores.map((store, nth) => here.claim(`w${nth}`, { store, limit: 1 })),
      )
      expect(claims.flat()).toHaveLength(1)
    }
  })

  it('a backlog is shared out: every generation to one worker, none twice, none left', async () => {
    const here = scenario(database)
    const sessions = await Promise.all(Array.from({ length: 120 }, () => here.session()))
    await Promise.all(sessions.map((id) => here.say(id)))
    const claimed: string[] = []
    await Promise.all(
      clients(6).map(async (store, nth) => {
        for (;;) {
          const batch = await here.claim(`w${nth}`, { store, limit: 3 })
          if (batch.length === 0) return
          claimed.push(...batch.map((run) => run.sessionId))
        }
      }),
    )
    // A claimer that met only locked rows went home early; what it missed is still there.
    claimed.push(...(await here.claim('last')).map((run) => run.sessionId))
    expect(claimed.toSorted()).toEqual(sessions.toSorted())
  })

  it('a claim does not wait for rows another claim holds: it skips them', async () => {
    const here = scenario(database)
    await here.say(await here.session())
    const first = await openTransaction(database.url)
    expect(await here.claim('w1', { store: first.store })).toHaveLength(1)
    expect(await here.claim('w2')).toEqual([])
    await first.rollback()
    expect(await here.claim('w2')).toHaveLength(1)
  })
})

describe('order', () => {
  it('takes the highest priority first, then the oldest', async () => {
    const here = scenario(database)
    const made: string[] = []
    for (const priority of [0, 5, 0, 5, -1]) {
      made.push(await here.session({ priority }))
      await here.say(made.at(-1)!)
    }
    const order: string[] = []
    for (let taken = await here.claim('w', { limit: 1 }); taken.length > 0;) {
      order.push(taken[0]!.sessionId)
      taken = await here.claim('w', { limit: 1 })
    }
    expect(order).toEqual([made[1], made[3], made[0], made[2], made[4]])
  })

  it('a batch is the front of that order', async () => {
    const here = scenario(database)
    const low = await here.session()
    const high = await Promise.all([here.session({ priority: 9 }), here.session({ priority: 9 })])
    for (const id of [low, ...high]) await here.say(id)
    const batch = await here.claim('w', { limit: 2 })
    expect(batch.map((run) => run.sessionId).toSorted()).toEqual(high.toSorted())
  })

  it('leaves a row alone before its run_at, and takes it after', async () => {
    const here = scenario(database)
    const sessionId = await here.session()
    await here.say(sessionId)
    const shift = (by: string) => database.sql`
      update ai_db.generations set run_at = now() + ${by}::interval where session_id = ${sessionId}`
    await shift('1 hour')
    expect(await here.claim('w')).toEqual([])
    await shift('-1 second')
    expect(await here.claim('w')).toHaveLength(1)
  })

  it('takes only agents the worker serves, and nothing without an agent or a free slot', async () => {
    const [mine, other] = [scenario(database), scenario(database)]
    await mine.say(await mine.session())
    expect(await other.claim('w')).toEqual([])
    expect(await mine.claim('w', { limit: 0 })).toEqual([])
    const none = { workerId: 'w', agents: new Map<string, number>(), limit: 5 }
    expect(await mine.store.claimGenerations(none)).toEqual([])
    expect(await mine.claim('w')).toHaveLength(1)
  })

  it("writes the agent's maxAttempts on the row, each agent its own", async () => {
    const [one, two] = [scenario(database), scenario(database)]
    await one.say(await one.session())
    await two.say(await two.session())
    const agents = new Map([
      [one.agent, 2],
      [two.agent, 7],
    ])
    const claimed = await one.store.claimGenerations({ workerId: 'w', agents, limit: 9 })
    expect(new Map(claimed.map((run) => [run.agentName, run.maxAttempts]))).toEqual(agents)
  })
})

describe('one active generation per session and agent', () => {
  it('a queued generation waits for the active one, while generating, pending again and waiting', async () => {
    const here = scenario(database)
    const run = await here.running()
    await here.say(run.sessionId)
    expect(await here.claim('w2')).toEqual([])

    await here.store.releaseGeneration({ generationId: run.id, attempt: run.attempt })
    const [again, ...others] = await here.claim('w2')
    expect({ id: again!.id, attempt: again!.attempt }).toEqual({ id: run.id, attempt: 2 })
    expect(others).toEqual([])

    await here.calls({ ...run, attempt: 2, workerId: 'w2' }, 1, 'pending')
    expect(await here.store.putDownGeneration(run.id, 2, 'tools')).toBe(true)
    expect(await here.claim('w3')).toEqual([])

    await here.store.cancelGeneration(run.id)
    expect(await here.claim('w3')).toHaveLength(1)
  })

  it('the database refuses a second queued and a second active one from any writer', async () => {
    const here = scenario(database)
    const run = await here.running()
    await here.say(run.sessionId)
    const second = database.sql`
      insert into ai_db.generations (session_id, agent_name) values (${run.sessionId}, ${here.agent})`
    await expect(second).rejects.toMatchObject({ constraint_name: 'generations_queued_key' })
    const jump = database.sql`
      update ai_db.generations set status = 'generating', attempt = 1, worker_id = 'psql'
      where session_id = ${run.sessionId} and status = 'pending'`
    await expect(jump).rejects.toMatchObject({ constraint_name: 'generations_active_key' })
  })

  it('another agent of the same session runs beside it', async () => {
    const [one, two] = [scenario(database), scenario(database)]
    const run = await one.running()
    await two.say(run.sessionId)
    expect(await two.claim('w')).toHaveLength(1)
  })
})

describe('the inbox', () => {
  it('holds what had arrived at the first claim, in order, and stays so at the next', async () => {
    const here = scenario(database)
    const sessionId = await here.session()
    const inbox = [await here.say(sessionId), await here.say(sessionId)]
    const first = await here.claimOne('w1')
    expect(first.inbox).toEqual(inbox)
    await here.say(sessionId)
    await here.store.releaseGeneration({ generationId: first.id, attempt: 1 })
    expect((await here.claimOne('w2')).inbox).toEqual(inbox)
  })

  it("what arrives meanwhile is one next cycle's batch, and none is dropped", async () => {
    const here = scenario(database)
    const run = await here.running()
    const late = [await here.say(run.sessionId), await here.say(run.sessionId)]
    expect(await generationsOf(run.sessionId)).toHaveLength(2)
    await here.store.settleGeneration(answer(run))
    expect(await unprocessed(run.sessionId)).toEqual(late)
    const next = await here.claimOne('w')
    expect(next.inbox).toEqual(late)
    await here.store.settleGeneration(answer(next))
    expect(await unprocessed(run.sessionId)).toEqual([])
    expect(await here.claim('w')).toEqual([])
  })

  it('a worker cannot take the queued generation while a message is being added to it', async () => {
    const here = scenario(database)
    const sessionId = await here.session()
    const first = await here.say(sessionId)
    const sender = await openTransaction(database.url)
    await insertMessage(sender, sessionId, here.agent, `${first}-late`)
    expect(await here.claim('w')).toEqual([])
    await sender.commit()
    expect((await here.claimOne('w')).inbox).toEqual([first, `${first}-late`])
  })

  it('a message rolled back leaves the queued generation as it was', async () => {
    const here = scenario(database)
    const sessionId = await here.session()
    const first = await here.say(sessionId)
    const sender = await openTransaction(database.url)
    await insertMessage(sender, sessionId, here.agent, `${first}-late`)
    await sender.rollback()
    expect((await here.claimOne('w')).inbox).toEqual([first])
  })

  it('a message that waits for a claim in flight gets a generation of its own', async () => {
    const here = scenario(database)
    const sessionId = await here.session()
    const first = await here.say(sessionId)
    const claimer = await openTransaction(database.url)
    expect(await here.claim('w', { store: claimer.store })).toHaveLength(1)
    const sender = await openTransaction(database.url)
    const sent = insertMessage(sender, sessionId, here.agent, `${first}-late`)
    sent.catch(() => undefined)
    await waitForLock(database.sql, sender.pid)
    await claimer.commit()
    await sent
    await sender.commit()
    const rows = await generationsOf(sessionId)
    expect(rows.map(({ status, inbox }) => [status, inbox])).toEqual([
      ['generating', [first]],
      ['pending', []],
    ])
  })

  it('a message whose transaction is open while its session runs and ends still has a generation', async () => {
    const here = scenario(database)
    const run = await here.running()
    const sender = await openTransaction(database.url)
    await insertMessage(sender, run.sessionId, here.agent, 'held-open')
    await here.store.settleGeneration(answer(run))
    expect(await here.claim('w')).toEqual([])
    await sender.commit()
    expect((await here.claimOne('w')).inbox).toEqual(['held-open'])
  })

  it('a message that commits between the snapshot and the row lock of a claim is in the next cycle', async () => {
    const here = scenario(database)
    const session = await here.session()
    await here.say(session)
    // A claim's snapshot is older than its statement triggers, and those run before it locks a row.
    const claimer = await holdConnection(database.url)
    await database.sql.unsafe(`
      create function ai_db.test_stop() returns trigger language plpgsql as $$
        begin
          if pg_backend_pid() = ${claimer.pid} then perform pg_advisory_xact_lock(4711); end if;
          return null;
        end $$;
      create trigger aa_test_stop before update on ai_db.generations for each statement
        execute function ai_db.test_stop()`)
    const gate = await openTransaction(database.url)
    await gate.sql`select pg_advisory_xact_lock(4711)`
    const claiming = here.claimOne('w', { store: claimer.store })
    await waitForLock(database.sql, claimer.pid)
    const late = await here.say(session)
    await gate.commit()
    const run = await claiming
    await database.sql`drop function ai_db.test_stop() cascade`

    expect(run.inbox).toHaveLength(1)
    expect(run.inbox).not.toContain(late)
    await here.store.settleGeneration(answer(run))
    expect((await here.claimOne('w')).inbox).toEqual([late])
  })

  it('every message of many senders is answered exactly once, whatever the timing', async () => {
    const here = scenario(database)
    const sessions = await Promise.all(Array.from({ length: 4 }, () => here.session()))
    const sent: string[] = []
    let sending = true
    const senders = sessions.flatMap((id) =>
      [1, 2].map(async () => {
        for (let nth = 0; nth < 40; nth += 1) sent.push(await here.say(id))
      }),
    )
    const answered: string[] = []
    const workers = clients(3).map(async (store, nth) => {
      for (let idle = 0; sending || idle < 3;) {
        const runs = await here.claim(`w${nth}`, { store, limit: 2 })
        idle = runs.length === 0 ? idle + 1 : 0
        for (const run of runs) {
          answered.push(...run.inbox)
          await store.settleGeneration(answer(run))
        }
      }
    })
    await Promise.all(senders)
    sending = false
    await Promise.all(workers)
    for (let left = await here.claim('last'); left.length > 0; left = await here.claim('last')) {
      for (const run of left) {
        answered.push(...run.inbox)
        await here.store.settleGeneration(answer(run))
      }
    }
    expect(answered.toSorted()).toEqual(sent.toSorted())
    for (const id of sessions) expect(await unprocessed(id)).toEqual([])
  })
})

describe('tool calls', () => {
  const lookup = (here: Scenario, limit = 10) =>
    here.store.claimToolCalls({ workerId: 'executor', tools: ['lookup'], limit })

  it('one call is claimed once although four executors ask at the same moment', async () => {
    const here = scenario(database)
    const run = await here.running()
    const stores = clients(4)
    for (let round = 0; round < 30; round += 1) {
      const [id] = await here.calls(run, 1, 'pending')
      const claims = await Promise.all(
        stores.map((store) => store.claimToolCalls({ workerId: 'x', tools: ['lookup'], limit: 1 })),
      )
      expect(claims.flat().map((call) => call.id)).toEqual([id])
    }
  })

  it('takes the highest priority first, respects run_at, and no call that needs approvals', async () => {
    const here = scenario(database)
    const run = await here.running()
    const [first, second, later, guarded] = await here.calls(run, 4, 'pending')
    await database.sql`update ai_db.tool_calls set priority = 3 where id = ${second!}`
    await database.sql`update ai_db.tool_calls set run_at = now() + interval '1 h' where id = ${later!}`
    await database.sql`update ai_db.tool_calls set approvals_required = 1 where id = ${guarded!}`
    expect((await lookup(here, 1)).map((call) => call.id)).toEqual([second])
    expect((await lookup(here)).map((call) => call.id)).toEqual([first])
    expect(await here.store.claimOwnToolCalls([guarded!], 'w')).toEqual([])
    await here.store.cancelGeneration(run.id)
  })

  it('a call of a cancelled generation is claimed by nobody', async () => {
    const here = scenario(database)
    const run = await here.running()
    const ids = await here.calls(run, 2, 'pending')
    await here.store.cancelGeneration(run.id)
    expect(await lookup(here)).toEqual([])
    expect(await here.store.claimOwnToolCalls(ids, 'w')).toEqual([])
  })
})

describe.each(drivers)('%s', (_name, connect) => {
  it('claims and settles with the same values', async () => {
    const here = scenario(database)
    const store = createStore(connect(database.url))
    const sessionId = await here.session()
    const messageId = await here.say(sessionId)
    const run = await here.claimOne('w', { store })
    expect(run).toEqual({
      id: expect.any(String) as string,
      sessionId,
      agentName: here.agent,
      attempt: 1,
      attemptsWithoutProgress: 1,
      maxAttempts: 5,
      step: 0,
      inbox: [messageId],
      queuedMs: expect.any(Number) as number,
    })
    const { messageId: reply } = await store.settleGeneration(answer(run, 'it is 42'))
    expect(reply).toEqual(expect.any(String))
    expect(await store.readGeneration(run.id)).toMatchObject({
      status: 'completed',
      content: 'it is 42',
    })
    expect(await store.generationForMessage(messageId)).toBe(run.id)
  })
})
