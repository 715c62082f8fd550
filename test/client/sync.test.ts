/** What sync goes through: shapes made anew, outages, and collections without our handler in between. */
import { createCollection } from '@tanstack/db'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { messagesCollectionOptions, openSessions, type MessageRecord } from '../../src/client.js'
import { records } from '../../src/contract/records.js'
import { createSession } from '../../src/sessions/create-session.js'
import { sendMessage } from '../../src/sessions/send-message.js'
import { pollUntil } from '../support/poll-until.js'
import { createClientWorld, conversationOf, shows, type ClientWorld } from './client-world.js'

let world: ClientWorld

beforeAll(async () => {
  world = await createClientWorld()
})

/** Drops the shapes of a table at the sync server, as it does itself when it has to. */
async function dropShape(table: string, sessionId: string): Promise<void> {
  const { electricUrl, electricSecret, schema } = world.database
  const columns = Object.keys(records.messages.shape).map(
    (name) => `"${name.replace(/[A-Z]/g, (char) => `_${char.toLowerCase()}`)}"`,
  )
  const query = new URLSearchParams({
    table: `${schema}.${table}`,
    columns: columns.join(','),
    where: '"session_id" = $1',
    'params[1]': sessionId,
    replica: 'full',
    ...(electricSecret !== undefined && { secret: electricSecret }),
  })
  const { status } = await fetch(`${electricUrl}/v1/shape?${query.toString()}`, {
    method: 'DELETE',
  })
  if (status >= 300) throw new Error(`DELETE answered ${status}`)
}

describe('a shape that is made anew (409 must-refetch)', () => {
  test('loses nothing, neither rows nor a write on its way', async () => {
    const tab = world.openTab(await world.newSession())
    await tab.ready
    await tab.send('Before').isPersisted.promise
    const letGo = world.gate.hold(
      ({ method, path }) => method === 'POST' && path.endsWith('/messages'),
    )
    const during = tab.send('During')
    const states: string[][] = []
    const subscription = tab.collections.messages.subscribeChanges(() =>
      states.push(conversationOf(tab)),
    )
    onTestFinished(() => subscription.unsubscribe())
    await dropShape('messages', tab.sessionId)
    const { db, schema } = world.database
    await sendMessage(
      db,
      { sessionId: tab.sessionId, content: 'Meanwhile', actorId: 'someone' },
      { schema },
    )
    await shows(tab, ['user: Before', 'user: Meanwhile', 'user: During'])
    const anew = world.gate.passed.filter(({ path }) =>
      path.includes(`${tab.sessionId}/shapes/messages`),
    )
    expect(anew.at(-1)?.path, 'it did start over').toMatch(/expired_handle|cache-buster/)
    letGo()
    await during.isPersisted.promise
    await shows(tab, ['user: Before', 'user: Meanwhile', 'user: During'])
    for (const state of states) expect(state).toContain('user: During')
    expect(tab.connection.get()).toEqual({ online: true, waiting: 0 })
  })
})

describe('an outage of the sync server', () => {
  test('that spans writes of others ends with all of them', async () => {
    const tab = world.openTab(await world.newSession())
    await tab.ready
    world.sync.shut()
    await pollUntil('trouble', () => !tab.connection.get().online)
    const { db, schema } = world.database
    for (const content of ['one', 'two', 'three']) {
      await sendMessage(db, { sessionId: tab.sessionId, content }, { schema })
    }
    world.sync.reopen()
    tab.refresh()
    await shows(tab, ['user: one', 'user: two', 'user: three'])
    await pollUntil('all is well', () => tab.connection.get().online)
  })
})

describe('the list of sessions', () => {
  test('is made, renamed and removed in one tab and seen in the other; others have another list', async () => {
    const url = `${world.gate.url}/ai`
    const list = (actor: string) => {
      const opened = openSessions({ url, headers: { 'x-actor': actor } })
      onTestFinished(() => opened.close())
      return opened
    }
    const [here, there, stranger] = [list('ann'), list('ann'), list('bob')]
    await Promise.all([here.ready, there.ready, stranger.ready])
    const { id, isPersisted } = here.create({ title: 'Plans' })
    expect(here.collection.get(id)?.title).toBe('Plans')
    await isPersisted.promise
    await pollUntil('it to arrive', () => there.collection.get(id)?.title === 'Plans')
    await there.rename(id, 'Other plans').isPersisted.promise
    await pollUntil('the new title', () => here.collection.get(id)?.title === 'Other plans')
    expect(here.collection.get(id)).toMatchObject({ ownerId: 'ann' })
    await here.remove(id).isPersisted.promise
    await pollUntil('it to go', () => !there.collection.has(id))
    await expect(there.rename(id, 'Too late').isPersisted.promise).rejects.toMatchObject({
      code: 'UNKNOWN_SESSION',
    })
    expect(stranger.collection.size).toBe(0)
  })
})

describe('one poll for all shapes', () => {
  test('is not held up by a shape that the actor may not read', async () => {
    const url = `${world.gate.url}/ai`
    const headers = { 'x-actor': 'guest' }
    const list = openSessions({ url, headers })
    onTestFinished(() => list.close())
    const tab = world.openTab(await world.newSession(), { headers })
    await tab.ready
    await pollUntil('the refusal', () => list.connection.get().error?.code === 'FORBIDDEN')
    await tab.send('Hello').isPersisted.promise
    expect(tab.connection.get()).toEqual({ online: true, waiting: 0 })
    expect(list.connection.get().online).toBe(true)
  })

  test('tells one shape’s refusal from the others when it is asked for first', async () => {
    const sessionId = await world.newSession()
    const ask = (polls: object[]) =>
      fetch(`${world.gate.url}/ai/live`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-actor': 'guest' },
        body: JSON.stringify({ polls }),
      })
    const mine = { sessionId, shape: 'messages', query: 'offset=-1' }
    const list = { shape: 'sessions', query: 'offset=-1' }
    expect((await ask([list, mine])).status).toBe(403)
    const { answers } = (await (await ask([mine, list])).json()) as {
      answers: { index: number; status: number }[]
    }
    for (const { index, status } of answers) expect(status).toBe(index === 0 ? 200 : 403)
    expect((await ask([{ shape: 'messages', query: 'offset=-1' }])).status).toBe(404)
  })
})

describe('collections without our handler', () => {
  test('sync straight from the sync server, as records', async () => {
    const { db, schema, electricUrl, electricSecret } = world.database
    const { id: sessionId } = await createSession(db, {}, { schema })
    const messages = createCollection(
      messagesCollectionOptions({
        shapeUrl: `${electricUrl}/v1/shape`,
        params: {
          table: `${schema}.messages`,
          where: 'session_id = $1',
          params: { '1': sessionId },
          replica: 'full',
          ...(electricSecret !== undefined && { secret: electricSecret }),
        },
      }) as never,
    ) as unknown as {
      preload(): Promise<void>
      cleanup(): Promise<void>
      get(id: string): MessageRecord | undefined
      utils: { awaitTxId(txid: number): Promise<boolean> }
    }
    onTestFinished(() => messages.cleanup())
    await messages.preload()
    const { id, txid } = await sendMessage(db, { sessionId, content: 'Straight' }, { schema })
    await messages.utils.awaitTxId(txid)
    const row = messages.get(id)!
    expect(row).toMatchObject({ sessionId, content: 'Straight', processed: false })
    expect(row.createdAt).toBeInstanceOf(Date)
    expect(Math.abs(Date.now() - +row.createdAt)).toBeLessThan(60_000)
    expect(typeof row.seq).toBe('number')
  })
})
