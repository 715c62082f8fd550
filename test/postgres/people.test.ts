/** What people do to a conversation: sessions, sends, cancels. Each verb once, again, from another session, and in a host's transaction. */
import { beforeAll, describe, expect, it } from 'vitest'
import { cancelGeneration } from '../../src/sessions/cancel-generation.js'
import { createSession } from '../../src/sessions/create-session.js'
import { deleteSession } from '../../src/sessions/delete-session.js'
import { listSessions } from '../../src/sessions/list-sessions.js'
import { renameSession } from '../../src/sessions/rename-session.js'
import { sendMessage } from '../../src/sessions/send-message.js'
import { openTransaction, waitForLock } from '../support/connections.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { answer, scenario } from './rows.js'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})

/** The transaction that last wrote a row: what a client waits for in its synced collection. */
async function writerOf(table: string, id: string): Promise<number> {
  const [row] = await database.sql<{ xmin: string }[]>`
    select xmin::text from ai_db.${database.sql(table)} where id = ${id}`
  return Number(row!.xmin)
}

async function rowOf(table: string, id: string): Promise<Record<string, unknown> | undefined> {
  const [row] = await database.sql`select * from ai_db.${database.sql(table)} where id = ${id}`
  return row
}

describe('createSession', () => {
  it('with an owner is on that owner’s list, newest first, and on no other', async () => {
    const owner = 'ann-lists'
    const first = await createSession(database.db, { ownerId: owner, title: 'one' })
    const second = await createSession(database.db, { ownerId: owner, metadata: { a: 1 } })
    await createSession(database.db, { ownerId: 'bob-lists' })
    await createSession(database.db)
    const listed = await listSessions(database.db, { ownerId: owner })
    expect(listed.map(({ id }) => id)).toEqual([second.id, first.id])
    expect(listed[1]).toMatchObject({ title: 'one', ownerId: owner, metadata: {} })
    expect(listed[0]!.createdAt.getTime()).toBeGreaterThanOrEqual(listed[1]!.createdAt.getTime())
    expect(await listSessions(database.db, { ownerId: owner, limit: 1 })).toHaveLength(1)
    await expect(listSessions(database.db, { ownerId: owner, limit: 0 })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      field: 'limit',
    })
  })

  it('repeated is one session: asked to touch, it answers like the first time; else it is refused', async () => {
    const session = { id: 'twice', ownerId: 'ann', onDuplicate: 'touch' } as const
    const first = await createSession(database.db, session)
    const again = await createSession(database.db, session)
    expect([first.repeated, again.repeated]).toEqual([false, true])
    expect(again.txid).not.toBe(first.txid)
    expect(await writerOf('sessions', 'twice')).toBe(again.txid)
    const refused = { code: 'DUPLICATE_ID', field: 'id' }
    await expect(createSession(database.db, { id: 'twice' })).rejects.toMatchObject(refused)
    // An id is no way into another owner's session.
    await expect(createSession(database.db, { ...session, ownerId: 'bob' })).rejects.toMatchObject(
      refused,
    )
  })
})

describe('renameSession', () => {
  it('changes the title, in a transaction whose id it returns; a repeat touches the row', async () => {
    const { id } = await createSession(database.db)
    const first = await renameSession(database.db, { sessionId: id, title: 'Trip to Rome' })
    const again = await renameSession(database.db, { sessionId: id, title: 'Trip to Rome' })
    expect(again.txid).not.toBe(first.txid)
    expect(await writerOf('sessions', id)).toBe(again.txid)
    expect(await rowOf('sessions', id)).toMatchObject({ title: 'Trip to Rome' })
  })

  it('of no session, or to a blank, is refused', async () => {
    await expect(
      renameSession(database.db, { sessionId: 'nowhere', title: 'x' }),
    ).rejects.toMatchObject({ code: 'UNKNOWN_SESSION', field: 'sessionId' })
    await expect(
      renameSession(database.db, { sessionId: 'nowhere', title: '  ' }),
    ).rejects.toMatchObject({ code: 'INVALID_INPUT', field: 'title' })
  })
})

describe('deleteSession', () => {
  it('takes everything in it along, running or not; a repeat finds nothing and is fine', async () => {
    const here = scenario(database)
    const run = await here.running()
    const [call] = await here.calls(run, 1)
    const { deleted } = await deleteSession(database.db, { sessionId: run.sessionId })
    expect(deleted).toBe(true)
    for (const [table, id] of Object.entries({
      sessions: run.sessionId,
      messages: run.messageId,
      generations: run.id,
      tool_calls: call!,
    })) {
      expect(await rowOf(table, id), table).toBeUndefined()
    }
    await expect(here.store.settleGeneration(answer(run))).rejects.toMatchObject({ code: 'FENCED' })
    expect(await deleteSession(database.db, { sessionId: run.sessionId })).toMatchObject({
      deleted: false,
      txid: expect.any(Number) as number,
    })
  })

  it('behind a cutover that has not committed waits for it: neither deadlocks', async () => {
    const here = scenario(database)
    const run = await here.running()
    const settling = await openTransaction(database.url)
    await settling.store.settleGeneration(answer(run))
    const deleting = await openTransaction(database.url)
    const deleted = deleteSession(deleting.db, { sessionId: run.sessionId })
    await waitForLock(database.sql, deleting.pid)
    await settling.commit()
    expect((await deleted).deleted).toBe(true)
    await deleting.commit()
    expect(await rowOf('messages', run.messageId)).toBeUndefined()
  })

  it('behind a send that has not committed waits for it, and takes the message along', async () => {
    const here = scenario(database)
    const sessionId = await here.session()
    await here.say(sessionId)
    const sending = await openTransaction(database.url)
    const message = {
      sessionId,
      content: 'late',
      targetAgent: here.agent,
      queueForUnknownAgent: true,
    }
    const { id } = await sendMessage(sending.db, message)
    const deleting = await openTransaction(database.url)
    const deleted = deleteSession(deleting.db, { sessionId })
    await waitForLock(database.sql, deleting.pid)
    await sending.commit()
    expect((await deleted).deleted).toBe(true)
    await deleting.commit()
    expect(await rowOf('messages', id)).toBeUndefined()
  })
})

describe('sendMessage', () => {
  const touch = 'touch' as const

  it('repeated with the same content is one message and one generation, and touches the row', async () => {
    const here = scenario(database)
    const sessionId = await here.session()
    const message = { id: `${here.agent}-m`, sessionId, content: 'hi', targetAgent: here.agent }
    const send = () =>
      sendMessage(database.db, { ...message, queueForUnknownAgent: true, onDuplicate: touch })
    const first = await send()
    const again = await send()
    expect([first.repeated, again.repeated]).toEqual([false, true])
    expect(await writerOf('messages', message.id)).toBe(again.txid)
    expect(await here.claim('w')).toHaveLength(1)
    // Answered or not: a repeat asks for no second turn.
    await send()
    expect(await here.claim('w')).toEqual([])
  })

  it('with the id of another message is refused: other words, another actor, another session', async () => {
    const here = scenario(database)
    const sessionId = await here.session()
    const id = await here.say(sessionId, 'hi')
    const message = { id, sessionId, content: 'hi', targetAgent: here.agent, onDuplicate: touch }
    const elsewhere = await here.session()
    for (const other of [{ content: 'ho' }, { actorId: 'bob' }, { sessionId: elsewhere }]) {
      const sent = sendMessage(database.db, { ...message, ...other, queueForUnknownAgent: true })
      await expect(sent).rejects.toMatchObject({ code: 'DUPLICATE_ID', field: 'id' })
    }
    const refused = sendMessage(database.db, { ...message, onDuplicate: 'refuse' })
    await expect(refused).rejects.toMatchObject({ code: 'DUPLICATE_ID' })
  })

  it('repeated while another transaction sends it waits for that, and is a repeat', async () => {
    const here = scenario(database)
    const sessionId = await here.session()
    const message = {
      ...{ id: `${here.agent}-m`, sessionId, content: 'hi', targetAgent: here.agent },
      ...{ queueForUnknownAgent: true, onDuplicate: touch },
    }
    const sending = await openTransaction(database.url)
    await sendMessage(sending.db, message)
    const repeating = await openTransaction(database.url)
    const repeated = sendMessage(repeating.db, message)
    await waitForLock(database.sql, repeating.pid)
    await sending.commit()
    expect(await repeated).toMatchObject({ id: message.id, repeated: true })
    await repeating.commit()
  })

  it('repeated after its agent’s workers have gone and others came is a repeat, not an unknown agent', async () => {
    const here = scenario(database)
    const sessionId = await here.session()
    const id = await here.say(sessionId, 'hi')
    await scenario(database).worker()
    const message = { id, sessionId, content: 'hi', targetAgent: here.agent, onDuplicate: touch }
    expect(await sendMessage(database.db, message)).toMatchObject({ repeated: true })
    await database.sql`delete from ai_db.workers`
  })
})

describe('cancelGeneration', () => {
  it('stops what runs, once; a repeat touches the row and says the same', async () => {
    const here = scenario(database)
    const run = await here.running()
    const cancel = { sessionId: run.sessionId, generationId: run.id }
    const first = await cancelGeneration(database.db, cancel)
    expect(first.cancelled).toBe(true)
    expect(await rowOf('generations', run.id)).toMatchObject({
      status: 'cancelled',
      cancel_reason: 'by-user',
    })
    const again = await cancelGeneration(database.db, cancel)
    expect(again.cancelled).toBe(true)
    expect(await writerOf('generations', run.id)).toBe(again.txid)
  })

  it('of what has ended says so, touches the row and changes nothing else', async () => {
    const here = scenario(database)
    const run = await here.running()
    await here.store.settleGeneration(answer(run))
    const before = await rowOf('generations', run.id)
    const { cancelled, txid } = await cancelGeneration(database.db, {
      sessionId: run.sessionId,
      generationId: run.id,
    })
    expect(cancelled).toBe(false)
    expect(await writerOf('generations', run.id)).toBe(txid)
    const after = await rowOf('generations', run.id)
    expect({ ...after, updated_at: 0 }).toEqual({ ...before, updated_at: 0 })
  })

  it('of a generation of another session finds none: an id is no right', async () => {
    const here = scenario(database)
    const run = await here.running()
    const sessionId = await here.session()
    await expect(
      cancelGeneration(database.db, { sessionId, generationId: run.id }),
    ).rejects.toMatchObject({ code: 'NOT_FOUND', field: 'generationId' })
    expect(await rowOf('generations', run.id)).toMatchObject({ status: 'generating' })
  })
})

describe('in a host’s transaction', () => {
  it('every verb commits with it or not at all', async () => {
    const here = scenario(database)
    const run = await here.running()
    const host = await openTransaction(database.url)
    await renameSession(host.db, { sessionId: run.sessionId, title: 'never' })
    await cancelGeneration(host.db, { sessionId: run.sessionId, generationId: run.id })
    await deleteSession(host.db, { sessionId: run.sessionId })
    await host.rollback()
    expect(await rowOf('sessions', run.sessionId)).toMatchObject({ title: null })
    expect(await rowOf('generations', run.id)).toMatchObject({ status: 'generating' })
  })
})
