/** `useChat`'s client while the worker that answers is killed mid-sentence and another one takes over. */
import { beforeAll, expect, inject, test } from 'vitest'
import { STORY } from '../support/child-worker-agents.js'
import { pollUntil } from '../support/poll-until.js'
import { spawnWorkerProcess } from '../support/worker-process.js'
import { scripted, startWorker } from '../worker/turn-world.js'
import { continueFrom } from '../../src/testing.js'
import { openChat } from './chat-client-world.js'
import { createClientWorld, type ClientWorld } from './client-world.js'

let world: ClientWorld

beforeAll(async () => {
  world = await createClientWorld()
})

test.each(['restart', 'continue'] as const)(
  'a killed worker’s half sentence is replaced or gone on with (%s), in every tab, and status comes to rest',
  async (onInterrupted) => {
    const { url, db, schema } = world.database
    await using victim = await spawnWorkerProcess()
    await victim.serve({
      databaseUrl: url,
      streamsUrl: inject('streamsUrl'),
      agents: [{ name: 'assistant', script: 'story', options: { onInterrupted } }],
      faults: [{ point: 'mid-text', nth: 25, action: 'hold' }],
      options: { schema },
    })
    const sessionId = await world.newSession()
    const chats = [openChat(world.openTab(sessionId)), openChat(world.openTab(sessionId))] as const
    await Promise.all(chats.map((chat) => pollUntil('a chat', () => chat.chunks.length > 0)))
    const sent = chats[0].client.sendMessage('tell me a story')
    await Promise.all(chats.map((chat) => chat.says(/assistant: word0 word1/)))
    await victim.kill()
    const late = openChat(world.openTab(sessionId), { persistence: true })
    // Another model's words, when it begins anew: nothing of the first may be left.
    const other = 'Quite another story, told from its beginning.'
    const end = onInterrupted === 'restart' ? other : STORY
    const { agent } = scripted(({ messages }) => ({ text: continueFrom(end, messages) }), {
      onInterrupted,
    })
    await startWorker({ db, schema, agents: [agent] })
    await sent
    for (const chat of [...chats, late]) {
      await chat.shows(['user: tell me a story', `assistant: ${end}`])
      await chat.rests()
      expect(chat.errors).toEqual([])
      // What was seen was always the beginning of the one text or of the other.
      for (const text of chat.texts) {
        expect(
          [STORY, end].some((whole) => whole.startsWith(text)),
          text,
        ).toBe(true)
      }
    }
  },
)
