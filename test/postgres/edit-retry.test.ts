/** Edit and retry: what is superseded is neither history nor inbox nor work, and every turn is answered once. */
import { beforeAll, describe, expect, it } from 'vitest'
import { loadGeneration } from '../../src/agent/load.js'
import { keepPartialStatement } from '../../src/claims/cancel.js'
import { toDatabase } from '../../src/internal/database.js'
import { editMessage } from '../../src/sessions/edit-message.js'
import { retryGeneration } from '../../src/sessions/retry-generation.js'
import { openTransaction, waitForLock } from '../support/connections.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { answer, scenario, type Running, type Scenario } from './rows.js'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})

interface MessageRow {
  id: string
  content: string
  processed: boolean
  superseded_by: string | null
}

const messagesOf = (sessionId: string) => database.sql<MessageRow[]>`
  select id, content, processed, superseded_by from ai_db.messages
  where session_id = ${sessionId} order by seq`

const standing = async (sessionId: string) =>
  (await messagesOf(sessionId))
    .filter((row) => row.superseded_by === null)
    .map((row) => row.content)

async function generationOf(id: string): Promise<Record<string, unknown>> {
  const [row] = await database.sql`select * from ai_db.generations where id = ${id}`
  return row!
}

const history = async (id: string) =>
  (await loadGeneration(toDatabase(database.db), id, 100)).messages.map(({ content }) => content)

/** A turn from the message to its answer. */
async function turn(here: Scenario, sessionId: string, question: string, reply: string) {
  const workerId = await here.worker()
  const messageId = await here.say(sessionId, question)
  const { id, attempt } = await here.claimOne(workerId)
  await here.store.settleGeneration(answer({ id, attempt }, reply))
  return { workerId, sessionId, messageId, id, attempt } satisfies Running
}

const edit = (run: { sessionId: string; messageId: string }, id: string, content = 'better') => ({
  sessionId: run.sessionId,
  messageId: run.messageId,
  id,
  content,
  actorId: 'ann',
})

describe('editMessage', () => {
  it('takes the message and all that came after it out of history, and asks again', async () => {
    const here = scenario(database)
    const sessionId = await here.session()
    await turn(here, sessionId, 'one', 'first')
    const second = await turn(here, sessionId, 'two', 'second')
    await turn(here, sessionId, 'three', 'third')
    const id = `${here.agent}-edit`
    expect(await editMessage(database.db, edit(second, id, 'two, please'))).toMatchObject({ id })
    expect(await standing(sessionId)).toEqual(['one', 'first', 'two, please'])
    const superseded = (await messagesOf(sessionId)).filter((row) => row.superseded_by !== null)
    expect(superseded.map((row) => [row.content, row.superseded_by, row.processed])).toEqual(
      ['two', 'second', 'three', 'third'].map((content) => [content, id, true]),
    )
    const next = await here.claimOne('w')
    expect(next.inbox).toEqual([id])
    expect(await history(next.id)).toEqual(['one', 'first', 'two, please'])
    await here.store.settleGeneration(answer(next, 'anew'))
    expect(await here.claim('w')).toEqual([])
    expect(await here.store.generationForMessage(id)).toBe(next.id)
  })

  it('while it is being answered cancels that run, whose words so far are superseded, too', async () => {
    const here = scenario(database)
    const run = await here.running()
    const calls = await here.calls(run, 1)
    const id = `${here.agent}-edit`
    await editMessage(database.db, edit(run, id))
    expect(await generationOf(run.id)).toMatchObject({
      status: 'cancelled',
      cancel_reason: 'by-user',
      metadata: { supersededBy: id },
    })
    const [call] = await database.sql`select status from ai_db.tool_calls where id = ${calls[0]!}`
    expect(call).toEqual({ status: 'cancelled' })
    await toDatabase(database.db).query(keepPartialStatement, [run.id, run.attempt, 'so f', '[]'])
    expect(await standing(run.sessionId)).toEqual(['better'])
    const next = await here.claimOne('w')
    expect(next.inbox).toEqual([id])
    expect(await history(next.id)).toEqual(['better'])
  })

  it('while it is queued replaces it in the inbox, beside what was said before', async () => {
    const here = scenario(database)
    const sessionId = await here.session()
    const before = await here.say(sessionId, 'before')
    const messageId = await here.say(sessionId, 'typo')
    const id = `${here.agent}-edit`
    await editMessage(database.db, edit({ sessionId, messageId }, id))
    const claimed = await here.claimOne('w')
    expect(claimed.inbox).toEqual([before, id])
    await here.store.settleGeneration(answer(claimed))
    expect(await here.claim('w')).toEqual([])
  })

  it('repeated by its id is one edit and touches the row; with other words it is refused', async () => {
    const here = scenario(database)
    const run = await turn(here, await here.session(), 'one', 'first')
    const id = `${here.agent}-edit`
    const first = await editMessage(database.db, edit(run, id))
    const again = await editMessage(database.db, edit(run, id))
    expect([first.repeated, again.repeated]).toEqual([false, true])
    const [row] = await database.sql<{ xmin: string }[]>`
      select xmin::text from ai_db.messages where id = ${id}`
    expect(Number(row!.xmin)).toBe(again.txid)
    await expect(editMessage(database.db, edit(run, id, 'other'))).rejects.toMatchObject({
      code: 'DUPLICATE_ID',
      field: 'id',
    })
    await expect(editMessage(database.db, edit(run, `${id}2`))).rejects.toMatchObject({
      code: 'ILLEGAL_TRANSITION',
      field: 'messageId',
    })
  })

  it('of another session’s message, an answer, or another agent’s question is refused', async () => {
    const here = scenario(database)
    const run = await turn(here, await here.session(), 'one', 'first')
    const sessionId = await here.session()
    await expect(
      editMessage(database.db, edit({ ...run, sessionId }, 'e-none')),
    ).rejects.toMatchObject({ code: 'NOT_FOUND', field: 'messageId' })
    await expect(
      editMessage(database.db, edit({ ...run, sessionId: 'nowhere' }, 'e-none')),
    ).rejects.toMatchObject({ code: 'UNKNOWN_SESSION' })
    const reply = (await messagesOf(run.sessionId)).at(-1)!
    await expect(
      editMessage(database.db, edit({ ...run, messageId: reply.id }, 'e-none')),
    ).rejects.toMatchObject({ code: 'INVALID_INPUT', field: 'messageId' })
    expect(await standing(run.sessionId)).toEqual(['one', 'first'])
  })

  it('behind a cutover that has not committed waits, and supersedes its answer as well', async () => {
    const here = scenario(database)
    const run = await here.running()
    const settling = await openTransaction(database.url)
    await settling.store.settleGeneration(answer(run, 'too late'))
    const editing = await openTransaction(database.url)
    const id = `${here.agent}-edit`
    const edited = editMessage(editing.db, edit(run, id))
    await waitForLock(database.sql, editing.pid)
    await settling.commit()
    await edited
    await editing.commit()
    expect(await standing(run.sessionId)).toEqual(['better'])
    expect(await generationOf(run.id)).toMatchObject({ status: 'completed' })
    expect((await here.claimOne('w')).inbox).toEqual([id])
  })

  it('before a cutover that waits for it fences that: the old answer never lands', async () => {
    const here = scenario(database)
    const run = await here.running()
    const editing = await openTransaction(database.url)
    await editMessage(editing.db, edit(run, `${here.agent}-edit`))
    const settling = await openTransaction(database.url)
    const settled = settling.store.settleGeneration(answer(run, 'too late'))
    const fenced = expect(settled).rejects.toMatchObject({ code: 'FENCED' })
    await waitForLock(database.sql, settling.pid)
    await editing.commit()
    await fenced
    await settling.rollback()
    expect(await standing(run.sessionId)).toEqual(['better'])
  })

  it('twice at once is one after the other: the second is refused, not interleaved', async () => {
    const here = scenario(database)
    const run = await here.running()
    const one = await openTransaction(database.url)
    await editMessage(one.db, edit(run, `${here.agent}-e1`))
    const two = await openTransaction(database.url)
    const second = editMessage(two.db, edit(run, `${here.agent}-e2`))
    const refused = expect(second).rejects.toMatchObject({ code: 'ILLEGAL_TRANSITION' })
    await waitForLock(database.sql, two.pid)
    await one.commit()
    await refused
    await two.rollback()
  })

  it('racing claims and sends loses no message and answers no superseded one (60 rounds)', async () => {
    const here = scenario(database)
    const editor = database.connect(2)
    for (let round = 0; round < 60; round += 1) {
      const sessionId = await here.session()
      const messageId = await here.say(sessionId, 'typo')
      const id = `${sessionId}-edit`
      const [claimed] = await Promise.all([
        here.claim('w'),
        editMessage(editor, edit({ sessionId, messageId }, id)),
        here.say(sessionId, 'and also'),
      ])
      const later = await here.claim('w')
      const taken = [...claimed, ...later]
      const active = await database.sql<{ id: string; inbox: string[] }[]>`
        select id, inbox from ai_db.generations where session_id = ${sessionId} and status = 'generating'`
      expect(active.flatMap((row) => row.inbox)).not.toContain(messageId)
      for (const { id: generation } of active) {
        const { attempt } = taken.find((one) => one.id === generation)!
        await here.store.settleGeneration(answer({ id: generation, attempt }))
      }
      for (const one of await here.claim('w')) await here.store.settleGeneration(answer(one))
      const open = (await messagesOf(sessionId)).filter((row) => !row.processed)
      expect(open).toEqual([])
      expect((await messagesOf(sessionId)).find((row) => row.id === id)!.superseded_by).toBeNull()
    }
  })
})

describe('retryGeneration', () => {
  const retry = (run: Running, id: string) => ({
    sessionId: run.sessionId,
    generationId: run.id,
    id,
    actorId: 'ann',
  })

  it('supersedes the answer and gives the same messages to a new generation', async () => {
    const here = scenario(database)
    const sessionId = await here.session()
    await turn(here, sessionId, 'one', 'first')
    const run = await turn(here, sessionId, 'two', 'second')
    const id = `${here.agent}-retry`
    expect(await retryGeneration(database.db, retry(run, id))).toMatchObject({ generationId: id })
    expect(await standing(sessionId)).toEqual(['one', 'first', 'two'])
    expect(await here.store.generationForMessage(run.messageId)).toBe(id)
    const next = await here.claimOne('w')
    expect([next.id, next.inbox]).toEqual([id, [run.messageId]])
    expect(await history(id)).toEqual(['one', 'first', 'two'])
    await here.store.settleGeneration(answer(next, 'better'))
    expect(await standing(sessionId)).toEqual(['one', 'first', 'two', 'better'])
    expect(await here.store.generationForMessage(run.messageId)).toBe(id)
  })

  it.each(['failed', 'cancelled', 'cancelled before its first claim'])(
    'of a %s one works',
    async (how) => {
      const here = scenario(database)
      const sessionId = await here.session()
      const messageId = await here.say(sessionId)
      let generationId = (await here.store.generationForMessage(messageId))!
      if (how === 'failed') {
        const run = await here.claimOne(await here.worker())
        await here.store.settleGeneration({
          ...{ generationId: run.id, attempt: run.attempt, status: 'failed', error: 'broken' },
        })
        generationId = run.id
      } else {
        if (how === 'cancelled') await here.claimOne(await here.worker())
        await here.store.cancelGeneration(generationId)
      }
      const id = `${here.agent}-retry`
      const run = { workerId: '', sessionId, messageId, id: generationId, attempt: 1 }
      await retryGeneration(database.db, retry(run, id))
      expect((await here.claimOne('w')).inbox).toEqual([messageId])
    },
  )

  it('with messages queued behind it lets the queued one answer all of them', async () => {
    const here = scenario(database)
    const run = await here.running()
    const later = await here.say(run.sessionId, 'and also')
    await here.store.settleGeneration({
      ...{ generationId: run.id, attempt: run.attempt, status: 'failed', error: 'broken' },
    })
    const queued = await here.store.generationForMessage(later)
    const id = `${here.agent}-retry`
    const first = await retryGeneration(database.db, retry(run, id))
    expect(first.generationId).toBe(queued)
    const again = await retryGeneration(database.db, retry(run, id))
    expect(again.generationId).toBe(queued)
    const next = await here.claimOne('w')
    expect([next.id, next.inbox]).toEqual([queued, [run.messageId, later]])
  })

  it('repeated by its id is one retry and touches the rows', async () => {
    const here = scenario(database)
    const run = await turn(here, await here.session(), 'one', 'first')
    const id = `${here.agent}-retry`
    await retryGeneration(database.db, retry(run, id))
    const again = await retryGeneration(database.db, retry(run, id))
    expect(again.generationId).toBe(id)
    const rows = await database.sql<{ xmin: string }[]>`
      select xmin::text from ai_db.generations where id in (${id}, ${run.id})`
    expect(rows.map((row) => Number(row.xmin))).toEqual([again.txid, again.txid])
    await expect(retryGeneration(database.db, retry(run, `${id}2`))).rejects.toMatchObject({
      code: 'ILLEGAL_TRANSITION',
    })
    expect(await here.claim('w')).toHaveLength(1)
  })

  it('of what has not ended, is not the newest turn, or is in another session is refused', async () => {
    const here = scenario(database)
    const sessionId = await here.session()
    const old = await turn(here, sessionId, 'one', 'first')
    const illegal = { code: 'ILLEGAL_TRANSITION', field: 'generationId' }
    const newest = await turn(here, sessionId, 'two', 'second')
    await expect(retryGeneration(database.db, retry(old, 'r-none'))).rejects.toMatchObject(illegal)
    await here.say(sessionId, 'three')
    const { id, attempt } = await here.claimOne('w')
    await expect(retryGeneration(database.db, retry(newest, 'r-none'))).rejects.toMatchObject(
      illegal,
    )
    const running = { ...newest, id, attempt }
    await expect(retryGeneration(database.db, retry(running, 'r-none'))).rejects.toMatchObject(
      illegal,
    )
    const elsewhere = { ...newest, sessionId: await here.session() }
    await expect(retryGeneration(database.db, retry(elsewhere, 'r-none'))).rejects.toMatchObject({
      code: 'NOT_FOUND',
      field: 'generationId',
    })
    expect(await standing(sessionId)).toEqual(['one', 'first', 'two', 'second', 'three'])
  })

  it('by two tabs at once is one: the other is refused, and one generation answers', async () => {
    const here = scenario(database)
    const run = await turn(here, await here.session(), 'one', 'first')
    const one = await openTransaction(database.url)
    await retryGeneration(one.db, retry(run, `${here.agent}-r1`))
    const two = await openTransaction(database.url)
    const second = retryGeneration(two.db, retry(run, `${here.agent}-r2`))
    const refused = expect(second).rejects.toMatchObject({ code: 'ILLEGAL_TRANSITION' })
    await waitForLock(database.sql, two.pid)
    await one.commit()
    await refused
    await two.rollback()
    expect(await here.claim('w')).toHaveLength(1)
  })
})

describe('superseded messages', () => {
  it('are processed, says the database: no inbox can hold one', async () => {
    const here = scenario(database)
    const id = await here.say(await here.session())
    await expect(
      database.sql`update ai_db.messages set superseded_by = 'x' where id = ${id}`,
    ).rejects.toMatchObject({ constraint_name: 'messages_superseded_check' })
  })
})
