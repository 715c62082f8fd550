/** Without a stream server live text comes as chunk rows, and is the same text. */
import { beforeAll, describe, expect, test } from 'vitest'
import fc from 'fast-check'
import { scripted, startWorker } from '../worker/turn-world.js'
import { pollUntil } from '../support/poll-until.js'
import { createClientWorld, newestGeneration, type ClientWorld } from './client-world.js'

let world: ClientWorld

beforeAll(async () => {
  world = await createClientWorld({ streams: false })
})

/** Reads a text to its end. @returns every look, and the last one */
async function readToTheEnd(tab: ReturnType<ClientWorld['openTab']>, generationId: string) {
  const text = tab.text(generationId)
  const seen = [text.get().text]
  const stop = text.subscribe(() => void seen.push(text.get().text))
  const last = await pollUntil('the end of a text', () => {
    const state = text.get()
    return ['completed', 'failed', 'cancelled'].includes(state.status) && state
  })
  stop()
  return { seen, last }
}

describe('live text from chunk rows', () => {
  test('grows to what the message says, and a tab that joins late reads the same', async () => {
    const sentence = 'Words come as rows here, a few at a time.'
    let reached!: () => void
    let goOn!: () => void
    const half = new Promise<void>((resolve) => (reached = resolve))
    const open = new Promise<void>((resolve) => (goOn = resolve))
    const { agent } = scripted([
      {
        text: sentence,
        beforeToken: (index) => {
          if (index !== 5) return
          reached()
          return open
        },
      },
    ])
    const { db, schema } = world.database
    await startWorker({ db, schema, agents: [agent], streams: {} })
    const sessionId = await world.newSession()
    const here = world.openTab(sessionId)
    await here.ready
    here.send('Speak')
    const id = await newestGeneration(here)
    const first = readToTheEnd(here, id)
    await half
    await pollUntil('half of it', () => here.text(id).get().text === 'Words come as rows here,')
    const there = world.openTab(sessionId)
    await there.ready
    const second = readToTheEnd(there, id)
    await pollUntil('half of it', () => there.text(id).get().text === 'Words come as rows here,')
    goOn()
    for (const { seen, last } of await Promise.all([first, second])) {
      expect(last).toMatchObject({ text: sentence, status: 'completed' })
      for (const text of seen) expect(sentence.startsWith(text), text).toBe(true)
    }
    const streams = world.gate.passed.filter(({ path }) => path.includes('/stream'))
    expect(streams, 'asked once in each tab').toHaveLength(2)
  })

  test('ends as the message says for any text', async () => {
    const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 300 })
    const turns: { text: string }[] = []
    const { agent } = scripted(() => turns.at(-1)!)
    const { db, schema } = world.database
    await startWorker({ db, schema, agents: [agent], streams: {} })
    const tab = world.openTab(await world.newSession())
    await tab.ready
    let count = 0
    await fc.assert(
      fc.asyncProperty(text, async (said) => {
        fc.pre(said.trim() !== '' && said.isWellFormed())
        turns.push({ text: said })
        tab.send('Say it')
        const id = await newestGeneration(tab, ++count)
        const { last, seen } = await readToTheEnd(tab, id)
        expect(last).toMatchObject({ status: 'completed' })
        for (const look of seen) expect(last.text.startsWith(look)).toBe(true)
      }),
      { numRuns: 15 },
    )
  })
})
