/** Writes: shown at once, sent once and in order, confirmed by their echo, taken back when refused. */
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { ChatSession } from '../../src/client.js'
import { createLiveQueryCollection } from '@tanstack/db'
import { pollUntil } from '../support/poll-until.js'
import { createClientWorld, conversationOf, shows, type ClientWorld } from './client-world.js'
import type { Passed } from './gate.js'
import { MemoryStorage } from './memory-storage.js'

let world: ClientWorld

beforeAll(async () => {
  world = await createClientWorld()
})

const isSend = ({ method, path }: Passed) => method === 'POST' && path.endsWith('/messages')
const isLive = ({ path }: Passed) => path.endsWith('/live') || path.includes('/shapes/')

async function readyTab(options = {}): Promise<ChatSession> {
  const tab = world.openTab(await world.newSession(), options)
  await tab.ready
  return tab
}

/** The contents of a session's messages as Postgres has them, in order. */
async function rowsOf(sessionId: string): Promise<string[]> {
  const { sql, schema } = world.database
  const rows = await sql`
    select content from ${sql(schema)}.messages where session_id = ${sessionId} order by seq`
  return rows.map(({ content }) => String(content))
}

const sendsTo = (sessionId: string) =>
  world.gate.passed.filter((one) => isSend(one) && one.path.includes(sessionId)).length

/** Every state a component would have rendered. */
function recordRenders(session: ChatSession): string[][] {
  const query = createLiveQueryCollection((q) =>
    q.from({ message: session.collections.messages }).orderBy(({ message }) => message.seq),
  )
  const renders: string[][] = []
  const subscription = query.subscribeChanges(
    () => renders.push(query.toArray.map(({ content }) => content)),
    { includeInitialState: true },
  )
  onTestFinished(async () => {
    subscription.unsubscribe()
    await query.cleanup()
  })
  return renders
}

describe('an optimistic write', () => {
  test('is replaced by its row without disappearing or showing twice', async () => {
    const tab = await readyTab()
    const renders = recordRenders(tab)
    const actions = ['one', 'two', 'three'].map((content) => tab.send(content))
    await Promise.all(actions.map(({ isPersisted }) => isPersisted.promise))
    const optimistic = tab.collections.messages.get(actions[0]!.id)!
    expect(optimistic.seq, 'the row is the synced one').toBeLessThan(2 ** 50)
    const all = ['one', 'two', 'three']
    const complete = renders.findIndex((render) => render.length === 3)
    for (const render of renders.slice(complete)) expect(render).toEqual(all)
    for (const render of renders) expect(render).toEqual(all.slice(0, render.length))
  })

  test('that is refused is taken back with the reason, and the next one goes out', async () => {
    const tab = await readyTab()
    const refused = tab.send('   ')
    const next = tab.send('Something')
    expect(conversationOf(tab)).toEqual(['user:    ', 'user: Something'])
    await expect(refused.isPersisted.promise).rejects.toMatchObject({
      name: 'AiDbError',
      code: 'INVALID_INPUT',
      field: 'content',
    })
    await next.isPersisted.promise
    expect(conversationOf(tab)).toEqual(['user: Something'])
    expect(tab.connection.get()).toMatchObject({ online: true, waiting: 0 })
  })

  test.each([
    ['content that is no text', 7 as unknown as string, {}],
    ['metadata that is no JSON', 'Hello', { metadata: { big: 1n } }],
  ])('with %s is refused before it shows or goes out', async (_what, content, options) => {
    const tab = await readyTab()
    const { isPersisted } = tab.send(content, options)
    expect(conversationOf(tab)).toEqual([])
    await expect(isPersisted.promise).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    expect(sendsTo(tab.sessionId)).toBe(0)
    expect(tab.connection.get()).toEqual({ online: true, waiting: 0 })
  })

  test('does not take another one of the same row with it when it is refused', async () => {
    const tab = await readyTab()
    const first = tab.send('First')
    await first.isPersisted.promise
    const letGo = world.gate.hold(({ path }) => path.includes(first.id))
    const refused = tab.edit(first.id, ' ')
    const edit = tab.edit(first.id, 'Second')
    letGo()
    await expect(refused.isPersisted.promise).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    expect(conversationOf(tab), 'it still shows').toEqual(['user: Second'])
    await edit.isPersisted.promise
    expect(conversationOf(tab)).toEqual(['user: Second'])
  })

  test('does not hold back what others write', async () => {
    const tab = await readyTab()
    const other = world.openTab(tab.sessionId)
    await other.ready
    const letGo = world.gate.hold((one) => isSend(one) && world.gate.passed.length >= 0)
    const mine = tab.send('Mine')
    const { sql, schema } = world.database
    await sql`insert into ${sql(schema)}.messages (session_id, role, actor_id, target_agent, content)
      values (${tab.sessionId}, 'user', 'someone', 'assistant', 'Theirs')`
    await shows(tab, ['user: Theirs', 'user: Mine'])
    letGo()
    await mine.isPersisted.promise
    await shows(other, ['user: Theirs', 'user: Mine'])
  })

  test('is not taken back while the sync server is down: it waits for its echo', async () => {
    const tab = await readyTab()
    world.sync.shut()
    const { isPersisted } = tab.send('Confirmed, not synced')
    let settled = false
    isPersisted.promise.then(
      () => (settled = true),
      () => (settled = true),
    )
    await pollUntil('the row', async () => (await rowsOf(tab.sessionId)).length === 1)
    await pollUntil('the trouble to be told', () => !tab.connection.get().online)
    expect(conversationOf(tab)).toEqual(['user: Confirmed, not synced'])
    expect(settled).toBe(false)
    expect(tab.connection.get()).toMatchObject({ waiting: 1 })
    world.sync.reopen()
    tab.refresh()
    await isPersisted.promise
    await pollUntil('all is well', () => tab.connection.get().online)
    expect(tab.connection.get()).toEqual({ online: true, waiting: 0 })
  })
})

describe('writes that cannot go out', () => {
  test('queue while offline, and go out once and in order', async () => {
    const tab = await readyTab()
    world.gate.shut()
    const actions = ['a', 'b', 'c', 'd'].map((content) => tab.send(content))
    expect(conversationOf(tab)).toEqual(['user: a', 'user: b', 'user: c', 'user: d'])
    await pollUntil('offline', () => !tab.connection.get().online)
    expect(tab.connection.get()).toMatchObject({
      waiting: 4,
      error: { code: 'SERVER_UNREACHABLE' },
    })
    expect(await rowsOf(tab.sessionId)).toEqual([])
    world.gate.reopen()
    tab.refresh()
    await Promise.all(actions.map(({ isPersisted }) => isPersisted.promise))
    expect(await rowsOf(tab.sessionId)).toEqual(['a', 'b', 'c', 'd'])
    expect(sendsTo(tab.sessionId)).toBe(4)
  })

  test('whose answers were lost are written once all the same', async () => {
    const tab = await readyTab()
    world.gate.loseAnswers(isSend, 2)
    const action = tab.send('Once')
    await action.isPersisted.promise
    expect(await rowsOf(tab.sessionId)).toEqual(['Once'])
    expect(sendsTo(tab.sessionId)).toBe(3)
    expect(conversationOf(tab)).toEqual(['user: Once'])
  })

  test.each([503, 429])('are tried again after a %i', async (status) => {
    const tab = await readyTab()
    const letThrough = world.gate.answer(isSend, status)
    const action = tab.send('Patience')
    await pollUntil('the error', () => tab.connection.get().error)
    letThrough()
    tab.refresh()
    await action.isPersisted.promise
    expect(await rowsOf(tab.sessionId)).toEqual(['Patience'])
  })

  test('survive a reload, are shown again and sent by the next tab', async () => {
    const storage = new MemoryStorage()
    const first = await readyTab({ storage })
    world.gate.shut()
    const action = first.send('Before the reload')
    const second = first.send('And another')
    await first.close()
    for (const { isPersisted } of [action, second]) {
      await expect(isPersisted.promise).rejects.toMatchObject({ code: 'CANCELLED' })
    }
    const tab = world.openTab(first.sessionId, { storage })
    await pollUntil('both to show', () => conversationOf(tab).length === 2)
    world.gate.reopen()
    tab.refresh()
    await pollUntil('the rows', async () => (await rowsOf(tab.sessionId)).length === 2)
    await shows(tab, ['user: Before the reload', 'user: And another'])
    await pollUntil('all confirmed', () => tab.connection.get().waiting === 0)
    expect(storage.text).toBe('')
    expect(await rowsOf(tab.sessionId)).toEqual(['Before the reload', 'And another'])
  })

  test('that landed before the reload are not shown twice when they are sent again', async () => {
    const storage = new MemoryStorage()
    const first = await readyTab({ storage })
    world.gate.loseAnswers(isSend, 1000)
    const { id } = first.send('Landed')
    await pollUntil('the row', async () => (await rowsOf(first.sessionId)).length === 1)
    await first.close()
    world.gate.loseAnswers(isSend, 0)
    const tab = world.openTab(first.sessionId, { storage })
    await tab.ready
    await pollUntil('all confirmed', () => tab.connection.get().waiting === 0)
    await shows(tab, ['user: Landed'])
    expect(tab.collections.messages.get(id)?.seq).toBeLessThan(2 ** 50)
    expect(await rowsOf(tab.sessionId)).toEqual(['Landed'])
  })

  test('that another version of the library left do not stand in the way', async () => {
    const storage = new MemoryStorage()
    const sessionId = await world.newSession()
    const scope = `electric-ai-db:outbox:${world.gate.url}/ai|${sessionId}:`
    storage.setItem(`${scope}old`, JSON.stringify([{ at: 1, write: { verb: 'sing', id: 'x' } }]))
    storage.setItem(`${scope}broken`, '{"at":')
    const tab = world.openTab(sessionId, { storage })
    await tab.ready
    await tab.send('Goes out').isPersisted.promise
    expect(await rowsOf(sessionId)).toEqual(['Goes out'])
    expect(storage.length).toBe(0)
  })

  test('whose login has expired wait for the next one and go out with refresh()', async () => {
    const tab = await readyTab()
    const letThrough = world.gate.answer(isSend, 401)
    const action = tab.send('written after the login had expired')
    await pollUntil('the reason', () => tab.connection.get().error?.code === 'UNAUTHENTICATED')
    expect(tab.connection.get().waiting).toBe(1)
    letThrough()
    tab.refresh()
    await action.isPersisted.promise
    expect(await rowsOf(tab.sessionId)).toEqual(['written after the login had expired'])
  })

  test('are refused, not forgotten, when too many wait', async () => {
    const tab = await readyTab()
    world.gate.shut()
    for (let n = 0; n < 200; n += 1) tab.send(`${n}`)
    await expect(tab.send('too much').isPersisted.promise).rejects.toMatchObject({
      code: 'OUTBOX_FULL',
    })
    expect(conversationOf(tab)).toHaveLength(200)
    await tab.close()
    world.gate.reopen()
  })
})

describe('a session that may not read', () => {
  test('goes on trying, tells why, and is ready after a login and refresh()', async () => {
    const letThrough = world.gate.answer(isLive, 401)
    const tab = world.openTab(await world.newSession())
    await pollUntil('the reason', () => tab.connection.get().error?.code === 'UNAUTHENTICATED')
    expect(tab.connection.get().online).toBe(true)
    letThrough()
    const readyAgain = pollUntil('ready', async () => {
      tab.refresh()
      return Promise.race([
        tab.ready.then(() => true),
        new Promise<false>((r) => setTimeout(r, 50, false)),
      ])
    })
    await readyAgain
    expect(tab.connection.get().error).toBeUndefined()
  })
})
