/** What a page holds open: few enough for two tabs over HTTP/1.1, and nothing after close(). */
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { openSessions } from '../../src/client.js'
import { scripted, startWorker } from '../worker/turn-world.js'
import { pollUntil } from '../support/poll-until.js'
import { createClientWorld, newestGeneration, shows, type ClientWorld } from './client-world.js'
import { createLimitedFetch } from './six-connections.js'

let world: ClientWorld

beforeAll(async () => {
  world = await createClientWorld()
})

describe('six connections for two tabs', () => {
  test('which list, read a text as it is written, and send: none waits for a connection for long', async () => {
    let goOn!: () => void
    const open = new Promise<void>((resolve) => (goOn = resolve))
    const { agent } = scripted([
      { text: 'Word after word.', beforeToken: (index) => (index === 2 ? open : undefined) },
      { text: 'Again.' },
    ])
    const { db, schema } = world.database
    await startWorker({ db, schema, agents: [agent] })
    const browser = createLimitedFetch(6)
    onTestFinished(() => browser.close())
    const sessionId = await world.newSession()
    // Each tab is a page of its own, with a poll of its own.
    const tabs = [1, 2].map(() => {
      const request: typeof fetch = (input, init) => browser.fetch(input, init)
      const list = openSessions({ url: `${world.gate.url}/ai`, fetch: request })
      onTestFinished(() => list.close())
      return { list, session: world.openTab(sessionId, { fetch: request }) }
    })
    await Promise.all(tabs.flatMap(({ list, session }) => [list.ready, session.ready]))
    const [here, there] = tabs.map(({ session }) => session)
    here!.send('Go on')
    const id = await newestGeneration(there!)
    for (const { session } of tabs) onTestFinished(session.text(id).subscribe(() => undefined))
    await pollUntil('both to read', () =>
      tabs.every(({ session }) => session.text(id).get().text === 'Word after'),
    )
    await pollUntil('all to be quiet', () => browser.held() === 4 && browser.queued() === 0)
    await there!.send('And this?').isPersisted.promise
    expect(browser.held(), 'a poll and a text each').toBeLessThanOrEqual(5)
    goOn()
    const all = [
      'user: Go on',
      'user: And this?',
      'assistant: Word after word.',
      'assistant: Again.',
    ]
    await Promise.all([shows(here!, all), shows(there!, all)])
    expect(world.errors).toEqual([])
  })
})

describe('close()', () => {
  test('leaves no request and no timer', async () => {
    let goOn!: () => void
    const open = new Promise<void>((resolve) => (goOn = resolve))
    const { agent } = scripted([
      { text: 'One two three.', beforeToken: (index) => (index === 2 ? open : undefined) },
    ])
    const { db, schema } = world.database
    await startWorker({ db, schema, agents: [agent] })
    await pollUntil('the test before to be over', () => world.gate.open() === 0)
    const timers = () => process.getActiveResourcesInfo().filter((one) => one === 'Timeout').length
    const tab = world.openTab(await world.newSession())
    await tab.ready
    tab.send('Count')
    const text = tab.text(await newestGeneration(tab))
    text.subscribe(() => undefined)
    await pollUntil('text', () => text.get().text !== '')
    world.sync.shut()
    const waiting = tab.send('Will not echo')
    await pollUntil('trouble', () => !tab.connection.get().online)
    await tab.close()
    await expect(waiting.isPersisted.promise).rejects.toMatchObject({ code: 'CANCELLED' })
    await pollUntil('no request', () => world.gate.open() === 0)
    const left = timers()
    goOn()
    world.sync.reopen()
    // The worker has timers of its own: what a closed session would add shows against a second one.
    const again = world.openTab(await world.newSession())
    await again.ready
    await again.close()
    await pollUntil('no timer more', () => timers() <= left)
    await expect(tab.send('Too late').isPersisted.promise).rejects.toMatchObject({
      code: 'CANCELLED',
    })
    await pollUntil('no request', () => world.gate.open() === 0)
  })

  test('before it is ready rejects ready', async () => {
    world.gate.shut()
    const tab = world.openTab(await world.newSession())
    await tab.close()
    await expect(tab.ready).rejects.toMatchObject({ code: 'CANCELLED' })
    world.gate.reopen()
  })
})
