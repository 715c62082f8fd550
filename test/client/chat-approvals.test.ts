/** Approvals through `useChat`'s client: an interrupt in every tab, answered in one of them. */
import { beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { pollUntil } from '../support/poll-until.js'
import { scripted, startWorker } from '../worker/turn-world.js'
import { openChat, type OpenedChat } from './chat-client-world.js'
import { createClientWorld, type ClientWorld } from './client-world.js'

let world: ClientWorld

beforeAll(async () => {
  world = await createClientWorld()
})

/** A tool that needs approval, and what it has done. */
async function startAgent(answer: string, calls = 1) {
  const done: string[] = []
  const erase = {
    name: 'erase',
    description: 'Erases a file',
    inputSchema: z.object({ path: z.string() }),
    needsApproval: true as const,
    execute: ({ path }: { path: string }) => {
      done.push(path)
      return { erased: path }
    },
  }
  const toolCalls = Array.from({ length: calls }, (_, n) => ({
    name: 'erase',
    args: { path: `/tmp/${n}` },
  }))
  const { agent } = scripted([{ text: 'May I?', toolCalls }, { text: answer }], { tools: [erase] })
  const { db, schema } = world.database
  await startWorker({ db, schema, agents: [agent] })
  return done
}

async function openChats(count: number) {
  const sessionId = await world.newSession()
  const chats = Array.from({ length: count }, () => openChat(world.openTab(sessionId)))
  await Promise.all(chats.map((chat) => pollUntil('a chat', () => chat.chunks.length > 0)))
  return { sessionId, chats: chats as [OpenedChat, OpenedChat] }
}

const asks = (chat: OpenedChat, count = 1) =>
  pollUntil(`${count} questions`, () => chat.client.getInterrupts().length === count)

test.each([
  [true, 'complete', ['/tmp/0']],
  [false, 'error', []],
])('approved: %s, in the other tab: the run goes on in both', async (approved, state, effects) => {
  const done = await startAgent('As you wish.')
  const { chats } = await openChats(2)
  const [here, there] = chats
  await here.client.sendMessage('erase it')
  await Promise.all([asks(here), asks(there)])
  await here.rests()
  const waiting = ['user: erase it', 'assistant: May I?[erase:approval-requested]']
  await Promise.all([here.shows(waiting), there.shows(waiting)])
  await expect(here.client.sendMessage('hurry')).rejects.toThrow(/pending interrupts/)
  const [question] = there.client.getInterrupts()
  expect(question).toMatchObject({ canResolve: true, metadata: { input: { path: '/tmp/0' } } })
  await there.client.addToolApprovalResponse({ id: question!.id, approved })
  const end = ['user: erase it', `assistant: May I?[erase:${state}]As you wish.`]
  await Promise.all([here.shows(end), there.shows(end)])
  await Promise.all([here.rests(), there.rests()])
  for (const chat of chats) expect(chat.client.getInterrupts()).toEqual([])
  expect(done).toEqual(effects)
  expect([...here.errors, ...there.errors]).toEqual([])
})

test('a reload asks again, with what was said, and can be answered there', async () => {
  const done = await startAgent('Gone.')
  const { chats, sessionId } = await openChats(1)
  await chats[0].client.sendMessage('erase it')
  await asks(chats[0])
  chats[0].client.dispose()
  const again = openChat(world.openTab(sessionId), { live: false, persistence: true })
  await asks(again)
  expect(again.lines()).toEqual(['user: erase it', 'assistant: May I?[erase:approval-requested]'])
  again.client.resolveInterrupts((interrupt) => {
    const { resolveInterrupt } = interrupt as { resolveInterrupt(answer: unknown): void }
    resolveInterrupt({ approved: true })
  })
  await again.shows(['user: erase it', 'assistant: May I?[erase:complete]Gone.'])
  await again.rests()
  expect(done).toEqual(['/tmp/0'])
})

test('of two questions, one answered elsewhere leaves the other', async () => {
  const done = await startAgent('Both done.', 2)
  const { chats } = await openChats(2)
  const [here, there] = chats
  await here.client.sendMessage('erase them')
  await Promise.all([asks(here, 2), asks(there, 2)])
  const calls = [...there.session.collections.toolCalls.values()].sort((a, b) => a.index - b.index)
  await there.session.approve(calls[0]!.id).isPersisted.promise
  await asks(here, 1)
  const [left] = here.client.getInterrupts()
  await here.client.addToolApprovalResponse({ id: left!.id, approved: true })
  const line = 'assistant: May I?[erase:complete][erase:complete]Both done.'
  await Promise.all([
    here.shows(['user: erase them', line]),
    there.shows(['user: erase them', line]),
  ])
  await Promise.all([here.rests(), there.rests()])
  expect(done.sort()).toEqual(['/tmp/0', '/tmp/1'])
})

test('edited arguments are refused, and the question stays', async () => {
  const done = await startAgent('Never.')
  const { chats } = await openChats(1)
  const [chat] = chats
  await chat.client.sendMessage('erase it')
  await asks(chat)
  const { id } = chat.client.getInterrupts()[0]!
  const resume = [
    { interruptId: id, status: 'resolved' as const, payload: { approved: true, editedArgs: {} } },
  ]
  await chat.client.resumeInterruptsUnsafe(resume)
  expect(chat.client.getError()?.message).toMatch(/with the arguments it has/)
  expect(done).toEqual([])
  await asks(chat)
})
