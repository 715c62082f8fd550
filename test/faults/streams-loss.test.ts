/** A stream server that loses everything, or is not there: live text is a hint, and the row has the last word. */
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startStreamsServer, type StreamsServer } from '../../src/dev/streams-server.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import {
  generationRow,
  messageRows,
  say,
  scripted,
  startReader,
  startWorker,
  untilSettled,
} from '../worker/turn-world.js'

const TEXT = Array.from({ length: 60 }, (_, n) => `word${n}`).join(' ')
let database: TestDatabase

beforeAll(async () => {
  database = await createTestDatabase()
})

/** A stream server that keeps its address, and nothing else, when it is restarted. */
async function forgetfulStreams() {
  let server: StreamsServer = await startStreamsServer({ port: 0 })
  const { url, port } = server
  onTestFinished(() => server.stop())
  return {
    url,
    stop: () => server.stop(),
    start: async () => {
      server = await startStreamsServer({ port })
    },
  }
}

/** A turn that stands still at a token until it is let go. */
function turnHeldAt(token: number) {
  let reached!: () => void
  let goOn!: () => void
  const isThere = new Promise<void>((resolve) => (reached = resolve))
  const released = new Promise<void>((resolve) => (goOn = resolve))
  const beforeToken = (index: number) => {
    if (index !== token) return
    reached()
    return released
  }
  return { turn: { text: TEXT, beforeToken }, isThere, goOn }
}

describe('the stream server', () => {
  test('restarted mid-turn with its data lost: the reader who was there ends with the same text, and so does one who comes later', async () => {
    const streams = await forgetfulStreams()
    const { turn, isThere, goOn } = turnHeldAt(30)
    const { agent } = scripted([turn])
    await startWorker({ db: database.db, agents: [agent], streams: { url: streams.url } })
    const { generationId, sessionId } = await say(database.db, 'Tell')
    const reader = startReader(database.db, generationId, { streamsUrl: streams.url })
    await isThere
    await reader.sees('the first half', (text) => text.includes('word29'))
    const before = await generationRow(database.sql, generationId)
    await streams.stop()
    await streams.start()
    expect(await generationRow(database.sql, generationId), 'the row is untouched').toEqual(before)
    goOn()
    const late = startReader(database.db, generationId, { streamsUrl: streams.url })
    for (const { ended } of [reader, late])
      expect(await ended).toMatchObject({ text: TEXT, status: 'completed' })
    expect(reader.updates.filter(({ update }) => update.rewritten)).toEqual([])
    expect(await generationRow(database.sql, generationId)).toMatchObject({ attempt: 1 })
    expect(await messageRows(database.sql, sessionId)).toHaveLength(2)
  })

  test('gone mid-turn and not coming back: the turn completes, the reader gets the rest from the row', async () => {
    const streams = await forgetfulStreams()
    const { turn, isThere, goOn } = turnHeldAt(30)
    const { agent } = scripted([turn])
    const { events } = await startWorker({
      db: database.db,
      agents: [agent],
      streams: { url: streams.url },
    })
    const { generationId } = await say(database.db, 'Tell')
    const reader = startReader(database.db, generationId, { streamsUrl: streams.url })
    await isThere
    await reader.sees('the first half', (text) => text.includes('word29'))
    await streams.stop()
    goOn()
    await events.untilType('completed')
    expect(await reader.ended).toMatchObject({ text: TEXT, status: 'completed', rewritten: false })
    await streams.start() // So that the stopping worker need not wait for it.
  })

  test('down for the whole turn: it takes no longer, and followGeneration gives the row’s text', async () => {
    const streams = await forgetfulStreams()
    await streams.stop()
    const { agent } = scripted([{ text: TEXT }])
    const { events } = await startWorker({
      db: database.db,
      agents: [agent],
      streams: { url: streams.url },
    })
    const { generationId } = await say(database.db, 'Tell')
    const reader = startReader(database.db, generationId, { streamsUrl: streams.url })
    await events.untilType('completed', 1, 3_000)
    expect(await untilSettled(database.db, generationId)).toMatchObject({ content: TEXT })
    expect(await reader.ended).toMatchObject({ text: TEXT, status: 'completed' })
    await streams.start()
  })
})
