/** The fence and the cutover: a stale attempt changes nothing, and an end leaves nothing half-done. */
import { beforeAll, describe, expect, it } from 'vitest'
import { keepPartialStatement } from '../../src/claims/cancel.js'
import { toDatabase } from '../../src/internal/database.js'
import { dumpTables, openTransaction } from '../support/connections.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { answer, done, scenario, type Running, type Scenario } from './rows.js'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})

const fenced = { code: 'FENCED' }

/** A run whose worker died, taken up by another, with a call that this one executes. */
async function takenOver(here: Scenario) {
  const run = await here.running()
  const [call] = await here.calls(run, 1)
  await here.store.insertChunks(run.id, run.attempt, [chunk(7, 1)])
  await here.store.recoverWorkers([run.workerId])
  const workerId = await here.worker()
  const now = await here.claimOne(workerId)
  await here.store.claimOwnToolCalls([call!], workerId)
  return { stale: run, now: { ...run, workerId, attempt: now.attempt }, call: call! }
}

const chunk = (index: number, attempt: number) => ({
  index,
  attempt,
  step: 1,
  type: 'text',
  content: 'live',
})

/** Every verb that writes for a run, as a worker calls it. */
const verbs: readonly (readonly [
  string,
  (here: Scenario, run: Running, call: string) => Promise<unknown>,
])[] = [
  ['insertChunks', (here, run) => here.store.insertChunks(run.id, run.attempt, [chunk(8, 1)])],
  ['recordStep', (here, run) => here.calls(run, 2)],
  ['settleGeneration', (here, run) => here.store.settleGeneration(answer(run))],
  [
    'settleGeneration as failed',
    (here, run) =>
      here.store.settleGeneration({ ...answer(run), status: 'failed', error: 'broken' }),
  ],
  [
    'releaseGeneration',
    (here, run) => here.store.releaseGeneration({ generationId: run.id, attempt: run.attempt }),
  ],
  [
    'releaseGeneration after an error',
    (here, run) =>
      here.store.releaseGeneration({
        generationId: run.id,
        attempt: run.attempt,
        error: 'broken',
        retryable: false,
      }),
  ],
  ['putDownGeneration', (here, run) => here.store.putDownGeneration(run.id, run.attempt, 'tools')],
  ['settleToolCall', (here, _run, call) => here.store.settleToolCall(done(call, 1))],
]

describe.each(verbs)('%s', (name, verb) => {
  it('with an attempt that is no longer the row’s throws FENCED and changes nothing', async () => {
    const here = scenario(database)
    const { stale, call } = await takenOver(here)
    const before = await dumpTables(database.sql)
    await expect(verb(here, stale, call)).rejects.toMatchObject(fenced)
    expect(await dumpTables(database.sql)).toEqual(before)
  })

  it('after a cancel throws FENCED and changes nothing, the attempt being right', async () => {
    const here = scenario(database)
    const { now, call } = await takenOver(here)
    await here.store.cancelGeneration(now.id)
    const before = await dumpTables(database.sql)
    await expect(verb(here, now, call)).rejects.toMatchObject(fenced)
    expect(await dumpTables(database.sql)).toEqual(before)
  })

  it('after the end throws FENCED and changes nothing, the attempt being right', async () => {
    const here = scenario(database)
    const { now, call } = await takenOver(here)
    await here.store.settleToolCall(done(call, 2))
    await here.store.settleGeneration(answer(now))
    const before = await dumpTables(database.sql)
    await expect(verb(here, now, call)).rejects.toMatchObject(fenced)
    expect(await dumpTables(database.sql)).toEqual(before)
  })

  it('of the holder lands: what the tests above forbid is the attempt alone', async () => {
    const here = scenario(database)
    const { now, call } = await takenOver(here)
    const before = await dumpTables(database.sql)
    // The call was executed before: its attempt is 2, as the run's is.
    if (name === 'settleToolCall') await here.store.settleToolCall(done(call, 2))
    else await verb(here, now, call)
    expect(await dumpTables(database.sql)).not.toEqual(before)
  })
})

describe('what carries no generation attempt', () => {
  it('settleToolCalls lists what it settled and leaves stale ones out, changing nothing of them', async () => {
    const here = scenario(database)
    const { now } = await takenOver(here)
    const [one, two] = await here.calls(now, 2)
    const settled = await here.store.settleToolCalls([done(one!, 1), done(two!, 9), done('none')])
    expect(settled).toEqual([one])
    const states = await here.store.readToolCalls(now.id, 1)
    expect(states.map((state) => state.status)).toEqual(['completed', 'executing'])
  })

  it('releaseToolCalls of a worker that lost them changes nothing', async () => {
    const here = scenario(database)
    const { stale, call } = await takenOver(here)
    const before = await dumpTables(database.sql)
    await here.store.releaseToolCalls([call], stale.workerId)
    expect(await dumpTables(database.sql)).toEqual(before)
  })

  it('the partial text of a cancelled run is kept once, and of a stale attempt never', async () => {
    const here = scenario(database)
    const { stale, now } = await takenOver(here)
    await here.store.cancelGeneration(now.id)
    const keep = (attempt: number) =>
      toDatabase(database.db).query(keepPartialStatement, [now.id, attempt, 'so far', '[]'])
    expect(await keep(stale.attempt)).toEqual([])
    expect(await keep(now.attempt)).toHaveLength(1)
    expect(await keep(now.attempt)).toEqual([])
  })

  it('a step is recorded once: the second time its worker is told so', async () => {
    const here = scenario(database)
    const run = await here.running()
    const step = {
      ...{ generationId: run.id, attempt: 1, workerId: run.workerId, step: 0, text: 'hm' },
      ...{ chunkIndex: 0, toolCalls: [], inputTokens: 5, outputTokens: 5, model: null },
      providerResponseId: null,
    }
    await here.store.recordStep(step)
    await expect(here.store.recordStep(step)).rejects.toMatchObject(fenced)
  })
})

describe('the cutover', () => {
  it('is one commit: message, inbox, chunks and next generation change together or not at all', async () => {
    const here = scenario(database)
    const run = await here.running()
    await here.calls(run, 0)
    await here.say(run.sessionId)
    const before = await dumpTables(database.sql)
    const held = await openTransaction(database.url)
    await held.store.settleGeneration(answer(run, 'it is 42'))
    expect(await dumpTables(database.sql)).toEqual(before)
    await held.commit()

    const [facts] = await database.sql<
      { inOne: boolean; inbox: boolean; chunks: number; queued: number; reply: string }[]
    >`
      select g.xmin = reply.xmin and g.xmin = asked.xmin as "inOne", reply.content as reply,
        asked.processed and asked.processed_by = g.id as inbox,
        (select count(*)::int from ai_db.chunks where generation_id = g.id) as chunks,
        (select count(*)::int from ai_db.generations
          where session_id = g.session_id and status = 'pending') as queued
      from ai_db.generations g
        join ai_db.messages reply on reply.generation_id = g.id and reply.processed
        join ai_db.messages asked on asked.id = ${run.messageId}
      where g.id = ${run.id}`
    expect(facts).toEqual({ inOne: true, inbox: true, chunks: 0, queued: 1, reply: 'it is 42' })
  })

  it('rolled back leaves the run as it was, and it can be settled again', async () => {
    const here = scenario(database)
    const run = await here.running()
    const before = await dumpTables(database.sql)
    const held = await openTransaction(database.url)
    await held.store.settleGeneration(answer(run))
    await held.rollback()
    expect(await dumpTables(database.sql)).toEqual(before)
    await here.store.settleGeneration(answer(run))
  })

  it('answers whoever asked last, with the id of the question', async () => {
    const here = scenario(database)
    const run = await here.running()
    await database.sql`
      update ai_db.messages set actor_id = 'ann', request_id = 'q1' where id = ${run.messageId}`
    const { messageId } = await here.store.settleGeneration(answer(run))
    const [reply] = await database.sql`select * from ai_db.messages where id = ${messageId!}`
    expect(reply).toMatchObject({
      role: 'assistant',
      actor_id: here.agent,
      target_agent: 'ann',
      in_reply_to: 'q1',
      generation_id: run.id,
      processed: true,
    })
  })
})

type End = (here: Scenario, run: Running) => Promise<unknown>

const ends: readonly (readonly [string, string, End])[] = [
  ['cancelled by a person', 'by-user', (here, run) => here.store.cancelGeneration(run.id)],
  [
    'cancelled by a timeout',
    'by-timeout',
    (here, run) => here.store.cancelGeneration(run.id, 'by-timeout'),
  ],
  [
    'failed',
    'by-error',
    (here, run) =>
      here.store.settleGeneration({
        generationId: run.id,
        attempt: run.attempt,
        status: 'failed',
        error: 'the model refused',
      }),
  ],
  [
    'failed at its last attempt',
    'by-error',
    (here, run) =>
      here.store.releaseGeneration({
        generationId: run.id,
        attempt: run.attempt,
        error: 'no credit',
        retryable: false,
      }),
  ],
]

describe.each(ends)('a generation that is %s', (_name, reason, end) => {
  it('marks its inbox processed, so that the message that broke it does not come back', async () => {
    const here = scenario(database)
    const run = await here.running()
    await end(here, run)
    const [message] = await database.sql`
      select processed, processed_by from ai_db.messages where id = ${run.messageId}`
    expect(message).toEqual({ processed: true, processed_by: run.id })
    expect(await here.claim('w')).toEqual([])
  })

  it('cancels its unsettled tool calls and leaves the settled ones', async () => {
    const here = scenario(database)
    const run = await here.running()
    const [settled, executing] = await here.calls(run, 2)
    const [pending] = await here.calls(run, 1, 'pending')
    await here.store.settleToolCall(done(settled!))
    await end(here, run)
    const rows = await database.sql`
      select id, status, cancel_reason from ai_db.tool_calls
      where generation_id = ${run.id} order by step, index`
    expect(rows.map(({ id, status, cancel_reason }) => [id, status, cancel_reason])).toEqual([
      [settled, 'completed', null],
      [executing, 'cancelled', reason],
      [pending, 'cancelled', reason],
    ])
    expect(await here.store.settleToolCalls([done(executing!)])).toEqual([])
  })

  it('queues again what it had not taken in', async () => {
    const here = scenario(database)
    const run = await here.running()
    const late = await here.say(run.sessionId)
    await end(here, run)
    expect((await here.claimOne('w')).inbox).toEqual([late])
  })
})

describe('cancel', () => {
  it('of a queued generation takes its messages with it: they are not queued again', async () => {
    const here = scenario(database)
    const sessionId = await here.session()
    const messageId = await here.say(sessionId)
    const queued = await here.store.generationForMessage(messageId)
    expect(await here.store.cancelGeneration(queued!)).toBe(true)
    expect(await here.claim('w')).toEqual([])
    await here.say(sessionId)
    expect((await here.claimOne('w')).inbox).toHaveLength(1)
  })

  it('of a queued generation leaves the messages to the running one that answers them', async () => {
    const here = scenario(database)
    const run = await here.running()
    const late = await here.say(run.sessionId)
    const queued = await here.store.generationForMessage(late)
    await here.store.cancelGeneration(queued!)
    await here.store.settleGeneration(answer(run))
    expect(await here.store.generationForMessage(run.messageId)).toBe(run.id)
    expect(await here.store.generationForMessage(late)).toBe(queued)
    expect(await here.claim('w')).toEqual([])
  })

  it('says false of one that had ended, and NOT_FOUND of none', async () => {
    const here = scenario(database)
    const run = await here.running()
    await here.store.settleGeneration(answer(run))
    expect(await here.store.cancelGeneration(run.id)).toBe(false)
    await expect(here.store.cancelGeneration('nobody')).rejects.toMatchObject({
      code: 'NOT_FOUND',
      field: 'generationId',
    })
  })
})

describe('cutovers of one moment', () => {
  it('are one statement, and each ends as it would alone: done, fenced, refused, behind a lock, with a message behind', async () => {
    const here = scenario(database)
    const runs: Running[] = []
    for (let nth = 0; nth < 6; nth += 1) runs.push(await here.running())
    const [plain, other, stale, locked, huge, followed] = runs as [
      ...[Running, Running, Running],
      ...[Running, Running, Running],
    ]
    const late = await here.say(followed.sessionId)
    const holder = await openTransaction(database.url)
    await holder.sql`select 1 from ai_db.generations where id = ${locked.id} for update`
    const before = here.store.roundTrips
    const settle = (run: Running, content?: string) => {
      const cutover = here.store.settleGeneration(answer(run, content))
      cutover.catch(() => undefined)
      return cutover
    }
    const together = [settle(plain), settle(other)]
    await Promise.all(together)
    expect(here.store.roundTrips - before, 'one statement for both').toBe(1)

    const [fencedOne, lockedOne, hugeOne, followedOne] = [
      settle({ ...stale, attempt: stale.attempt + 1 }),
      settle(locked),
      settle(huge, 'x'.repeat(1_048_577)),
      settle(followed, 'to the first'),
    ]
    await expect(fencedOne).rejects.toMatchObject(fenced)
    await expect(hugeOne).rejects.toMatchObject({ code: 'INVALID_INPUT', field: 'content' })
    expect((await followedOne).messageId).not.toBeNull()
    const statuses = async () => {
      const rows = await database.sql<{ id: string; status: string }[]>`
        select id, status from ai_db.generations where id = any (${runs.map(({ id }) => id)})`
      const byId = new Map(rows.map(({ id, status }) => [id, status]))
      return runs.map(({ id }) => byId.get(id))
    }
    const running = 'generating'
    expect(await statuses()).toEqual([
      'completed',
      'completed',
      running,
      running,
      running,
      'completed',
    ])
    await holder.commit()
    await lockedOne
    expect((await statuses())[3]).toBe('completed')
    const [reply] = await database.sql<{ content: string; target_agent: string }[]>`
      select content, target_agent from ai_db.messages where generation_id = ${plain.id}`
    expect(reply!.content).toBe('done')
    const [inbox] = await database.sql<{ processed_by: string }[]>`
      select processed_by from ai_db.messages where id = ${other.messageId}`
    expect(inbox!.processed_by).toBe(other.id)
    const next = await here.claimOne(await here.worker())
    expect(next.inbox).toEqual([late])
  })
  it('of one generation: only the first is answered, and a stale attempt beside the right one writes nothing', async () => {
    const here = scenario(database)
    const [run, bystander] = [await here.running(), await here.running()]
    const stale = { ...run, attempt: run.attempt + 1 }
    const settled = await Promise.allSettled([
      here.store.settleGeneration(answer(stale, 'stale')),
      here.store.settleGeneration(answer(bystander)),
      here.store.settleGeneration(answer(run, 'right')),
      here.store.settleGeneration(answer(run, 'again')),
    ])
    expect(settled.map(({ status }) => status).slice(0, 2)).toEqual(['rejected', 'fulfilled'])
    expect(settled.slice(2).filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    const replies = await database.sql<{ content: string }[]>`
      select content from ai_db.messages where generation_id = ${run.id}`
    const told = settled[2].status === 'fulfilled' ? 'right' : 'again'
    expect(replies.map(({ content }) => content)).toEqual([told])
  })
})
