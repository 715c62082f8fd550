/** `useChat` over a session, by the client it wraps: what is said, streamed, stopped and reloaded. */
import { beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { ScriptedTurn } from '../../src/testing.js'
import { pollUntil } from '../support/poll-until.js'
import { scripted, startWorker } from '../worker/turn-world.js'
import { openChat } from './chat-client-world.js'
import { createClientWorld, newestGeneration, type ClientWorld } from './client-world.js'

let world: ClientWorld

beforeAll(async () => {
  world = await createClientWorld()
})

async function startAgent(
  script: Parameters<typeof scripted>[0],
  options: Parameters<typeof scripted>[1] = {},
  allowErrors = false,
) {
  const { db, schema } = world.database
  const { agent } = scripted(script, options)
  return startWorker({ db, schema, agents: [agent] }, { allowErrors })
}

/** A turn that stops before its nth word until it is let go on. */
function heldTurn(text: string, at: number) {
  let goOn!: () => void
  const open = new Promise<void>((resolve) => (goOn = resolve))
  const turn: ScriptedTurn = { text, beforeToken: (index) => (index === at ? open : undefined) }
  return { turn, goOn }
}

const double = {
  name: 'double',
  description: 'Doubles a number',
  inputSchema: z.object({ n: z.number() }),
  execute: ({ n }: { n: number }) => ({ doubled: n * 2 }),
}

async function twoChats() {
  const sessionId = await world.newSession()
  const chats = [openChat(world.openTab(sessionId)), openChat(world.openTab(sessionId))] as const
  await Promise.all(chats.map((chat) => pollUntil('a chat', () => chat.chunks.length > 0)))
  return chats
}

describe('two tabs', () => {
  test('show the same conversation, whichever of them speaks, and come to rest', async () => {
    await startAgent([{ text: 'Hello there.' }, { text: 'Still here.' }, { text: 'And again.' }])
    const [here, there] = await twoChats()
    await here.client.sendMessage('hi')
    expect(here.lines()).toEqual(['user: hi', 'assistant: Hello there.'])
    await there.shows(['user: hi', 'assistant: Hello there.'])
    await there.rests()
    await there.client.sendMessage('you?')
    const all = ['user: hi', 'assistant: Hello there.', 'user: you?', 'assistant: Still here.']
    await Promise.all([here.shows(all), there.shows(all)])
    await Promise.all([here.rests(), there.rests()])
    await here.client.sendMessage('more')
    await Promise.all([here.rests(), there.rests()])
    const last = ['user: more', 'assistant: And again.']
    await Promise.all([here.shows([...all, ...last]), there.shows([...all, ...last])])
    const ids = (chat: typeof here) => chat.client.getMessages().map(({ id }) => id)
    expect(ids(here)).toEqual(ids(there))
    expect(here.statuses.filter((status) => status === 'submitted')).toHaveLength(2)
    expect(there.statuses.filter((status) => status === 'submitted')).toHaveLength(1)
    // The end of a run that was only watched is told a moment after its text.
    await pollUntil('three ends each', () => here.finished.length + there.finished.length >= 6)
    expect([here.finished.length, there.finished.length]).toEqual([3, 3])
    expect([...here.errors, ...there.errors, ...world.errors]).toEqual([])
  })

  test('see an answer word by word, tool calls among them', async () => {
    const toolCalls = [{ name: 'double', args: { n: 21 } }]
    const held = heldTurn('It makes forty two.', 2)
    await startAgent([{ text: 'Let me see.', toolCalls }, held.turn], { tools: [double] })
    const [here, there] = await twoChats()
    const sent = here.client.sendMessage('double 21')
    await Promise.all([
      here.says(/^assistant: Let me see\.\[double:complete\]It makes ?$/),
      there.says(/^assistant: Let me see\.\[double:complete\]It makes ?$/),
    ])
    expect(there.client.getStatus()).toBe('streaming')
    expect(there.client.getSessionGenerating()).toBe(true)
    held.goOn()
    await sent
    const line = 'assistant: Let me see.[double:complete]It makes forty two.'
    await Promise.all([
      here.shows(['user: double 21', line]),
      there.shows(['user: double 21', line]),
    ])
    await there.rests()
    const call = here.client.getMessages()[1]!.parts.find((part) => part.type === 'tool-call')
    expect(call).toMatchObject({ input: { n: 21 }, output: { doubled: 42 } })
    for (const chat of [here, there]) {
      expect(chat.chunks).toContain('TOOL_CALL_START')
      for (const [index, text] of chat.texts.entries()) {
        if (text !== '') expect(text.startsWith('Let me see'), `${index}: ${text}`).toBe(true)
      }
    }
  })

  test('a message sent while another tab’s is answered gets its own answer, and waits for that', async () => {
    const held = heldTurn('The first answer.', 1)
    await startAgent([held.turn, { text: 'The second answer.' }])
    const [here, there] = await twoChats()
    void here.client.sendMessage('first')
    await there.says(/^assistant: The ?$/)
    let answered = false
    const sent = there.client.sendMessage('second').then(() => (answered = true))
    await here.says(/assistant: The ?$/)
    await pollUntil('the second message', () => here.lines().includes('user: second'))
    expect(answered).toBe(false)
    held.goOn()
    await sent
    const all = [
      'user: first',
      'user: second',
      'assistant: The first answer.',
      'assistant: The second answer.',
    ]
    await Promise.all([here.shows(all), there.shows(all)])
    await Promise.all([here.rests(), there.rests()])
  })
})

describe('a reload mid-sentence', () => {
  test.each([
    ['live', { live: true, persistence: false }],
    ['persistence', { live: false, persistence: true }],
    ['both', { live: true, persistence: true }],
  ])('goes on without loss or repeat (%s)', async (_, options) => {
    const held = heldTurn('One two three four five.', 3)
    await startAgent([{ text: 'Before.' }, held.turn])
    const sessionId = await world.newSession()
    const first = openChat(world.openTab(sessionId))
    await first.client.sendMessage('hi')
    void first.client.sendMessage('count')
    await first.says(/^assistant: One two three ?$/)
    first.client.dispose()
    const again = openChat(world.openTab(sessionId), options)
    await again.says(/^assistant: One two three ?$/)
    expect(again.client.getStatus()).toBe('streaming')
    if (options.persistence) expect(again.client.getIsLoading()).toBe(true)
    held.goOn()
    const all = ['user: hi', 'assistant: Before.', 'user: count']
    await again.shows([...all, 'assistant: One two three four five.'])
    await again.rests()
    for (const text of again.texts) expect('One two three four five.Before.').toContain(text)
    // The view goes and comes back, as React's strict mode has it.
    again.client.detach()
    again.client.attach()
    await again.shows([...all, 'assistant: One two three four five.'])
    await again.rests()
    expect(again.errors).toEqual([])
  })

  test('after the end shows the conversation, and joins nothing', async () => {
    await startAgent([{ text: 'Done.' }])
    const sessionId = await world.newSession()
    await openChat(world.openTab(sessionId)).client.sendMessage('hi')
    const again = openChat(world.openTab(sessionId), { live: false, persistence: true })
    await again.shows(['user: hi', 'assistant: Done.'])
    await again.rests()
    expect(again.chunks).toEqual([])
  })

  test('a run that this session does not have cannot be joined', async () => {
    const session = world.openTab(await world.newSession())
    const joined = openChat(session).connection.joinRun('nobody')
    await expect(joined[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })
})

describe('an end that is none', () => {
  test('a failed turn is an error in both tabs, and reload() answers anew', async () => {
    let calls = 0
    const script = (): ScriptedTurn => {
      calls += 1
      return calls === 1 ? { text: 'Half an', then: 'throw', error: 'no credit' } : { text: 'Ok.' }
    }
    await startAgent(script, { maxAttempts: 1 }, true)
    const [here, there] = await twoChats()
    await here.client.sendMessage('hi')
    await here.rests('error')
    await pollUntil('the error in the other tab', () => there.errors.length > 0)
    expect(here.errors[0]!.message).toContain('no credit')
    expect(there.client.getSessionGenerating()).toBe(false)
    expect(there.client.getStatus()).not.toBe('streaming')
    await here.client.reload()
    const lines = ['user: hi', 'assistant: Ok.']
    await Promise.all([here.shows(lines), there.shows(lines)])
    await Promise.all([here.rests(), there.rests()])
    expect(here.errors).toHaveLength(1)
  })

  test('stop() leaves the agent at it; cancel() ends it in every tab, with what it had said', async () => {
    const held = heldTurn('One two three.', 2)
    await startAgent([held.turn, { text: 'Next.' }])
    const [here, there] = await twoChats()
    void here.client.sendMessage('count')
    await Promise.all([here.says(/One two ?$/), there.says(/One two ?$/)])
    here.client.stop()
    expect(here.client.getStatus()).toBe('ready')
    const id = await newestGeneration(here.session)
    expect(here.session.collections.generations.get(id)!.status).toBe('generating')
    await there.connection.cancel()
    await Promise.all([here.rests(), there.rests()])
    await there.client.sendMessage('and?')
    const lines = ['user: count', 'assistant: One two', 'user: and?', 'assistant: Next.']
    await Promise.all([here.shows(lines), there.shows(lines)])
    held.goOn()
  })

  test('with cancelOnStop, stop() cancels', async () => {
    const held = heldTurn('One two three.', 2)
    await startAgent([held.turn])
    const chat = openChat(world.openTab(await world.newSession()), { cancelOnStop: true })
    void chat.client.sendMessage('count')
    await chat.says(/One two ?$/)
    chat.client.stop()
    const id = await newestGeneration(chat.session)
    const { generations } = chat.session.collections
    await pollUntil('the cancel', () => generations.get(id)?.status === 'cancelled')
    await chat.rests()
    held.goOn()
  })

  test('a message that is refused is taken back, with the reason', async () => {
    const [here, there] = await twoChats()
    await here.shows([])
    await here.client.sendMessage('x'.repeat(1_100_000))
    await here.rests('error')
    expect(here.errors[0]).toMatchObject({ name: 'AiDbError' })
    await Promise.all([here.shows([]), there.shows([])])
    const image = { type: 'image', source: { type: 'url', value: 'http://x/y.png' } } as const
    await here.client.sendMessage({ content: [image] })
    expect(here.client.getError()?.message).toMatch(/part of type 'image'/)
  })

  test('a message edited elsewhere before it was answered keeps nobody waiting', async () => {
    const [here, there] = await twoChats()
    const sent = here.client.sendMessage('a question')
    await there.shows(['user: a question'])
    const [row] = there.session.collections.messages.values()
    await there.session.edit(row!.id, 'a better one').isPersisted.promise
    await sent
    await here.shows(['user: a better one'])
    await startAgent([{ text: 'Sure.' }])
    const lines = ['user: a better one', 'assistant: Sure.']
    await Promise.all([here.shows(lines), there.shows(lines)])
    await Promise.all([here.rests(), there.rests()])
  })
})
