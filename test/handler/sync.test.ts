/** Electric's own client through the handler: it sees its session's rows and goes on over a restart of the sync server. */
import { createServer } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { ShapeStream, Shape } from '@electric-sql/client'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { paths } from '../../src/contract/requests.js'
import { startSyncServer } from '../../src/dev/sync-server/server.js'
import { createHandler } from '../../src/handler/create-handler.js'
import { sendMessage } from '../../src/sessions/send-message.js'
import { pollUntil } from '../support/poll-until.js'
import {
  createSyncedDatabase,
  usesElectric,
  type SyncedDatabase,
} from '../support/synced-database.js'
import { createWorld, listen, ownSessionsOnly, sessionOf, type World } from './handler-world.js'

const SECRET = 'known-to-the-handler-only'

let database: SyncedDatabase
let world: World

beforeAll(async () => {
  database = await createSyncedDatabase({ secret: SECRET })
  world = await createWorld({
    db: database.db,
    schema: database.schema,
    electric: { url: database.electricUrl, secret: database.electricSecret ?? SECRET },
  })
})

const say = (sessionId: string, content: string) =>
  sendMessage(
    database.db,
    { sessionId, content, queueForUnknownAgent: true },
    { schema: database.schema },
  )

function watch(url: string, options: { liveSse?: boolean; subsetMethod?: 'POST' } = {}) {
  const stop = new AbortController()
  onTestFinished(() => stop.abort())
  const stream = new ShapeStream({
    url,
    headers: { authorization: 'Bearer alice' },
    signal: stop.signal,
    backoffOptions: { initialDelay: 20, maxDelay: 100, multiplier: 2 },
    ...options,
  })
  return { stream, shape: new Shape(stream) }
}

const contents = (shape: Shape) => shape.currentRows.map((row) => row['content']).sort()

describe.each([
  ['long polls', {}],
  ['events', { liveSse: true }],
])('by %s', (_how, options) => {
  test('the rows of the session come, and those of others do not', async () => {
    const [mine, bobs] = [
      await sessionOf(database.db, 'alice', database.schema),
      await sessionOf(database.db, 'bob', database.schema),
    ]
    await say(mine, 'before')
    const { shape } = watch(world.url + paths.shape(mine, 'messages'), options)
    expect((await shape.rows).map((row) => row['content'])).toEqual(['before'])
    for (const word of ['one', 'two']) {
      await say(bobs, `bob’s ${word}`)
      await say(mine, word)
    }
    await pollUntil('both', () => contents(shape).length >= 3)
    expect(contents(shape)).toEqual(['before', 'one', 'two'])
  })
})

test('a subset in the body has what it asked for, of the session', async () => {
  const [mine, bobs] = [
    await sessionOf(database.db, 'alice', database.schema),
    await sessionOf(database.db, 'bob', database.schema),
  ]
  for (const word of ['one', 'two', 'three']) {
    await say(mine, word)
    await say(bobs, word)
  }
  const url = world.url + paths.shape(mine, 'messages')
  for (const method of ['GET', 'POST'] as const) {
    const { stream } = watch(url)
    const { data } = await stream.fetchSnapshot({
      where: '"content" = ANY($1)',
      params: { '1': '{one,two}' },
      orderBy: '"seq" DESC',
      limit: 2,
      method,
    })
    const seen = data.map(({ value }) => [value['content'], value['session_id']])
    expect(seen).toEqual([
      ['two', mine],
      ['one', mine],
    ])
  }
})

test.skipIf(usesElectric)(
  'the sync server goes away and comes back: the client is told to wait, and then has every row once',
  async () => {
    const options = { databaseUrl: database.url, secret: SECRET, port: 0 }
    const first = await startSyncServer(options)
    const told: unknown[] = []
    const handler = createHandler({
      db: database.db,
      schema: database.schema,
      electric: { url: first.url, secret: SECRET },
      authorize: ownSessionsOnly,
      onError: (error) => told.push(error),
    })
    const listener = getRequestListener(handler)
    const server = createServer((request, response) => void listener(request, response))
    const url = await listen(server)
    const mine = await sessionOf(database.db, 'alice', database.schema)
    await say(mine, 'before')
    const { shape } = watch(url + paths.shape(mine, 'messages'))
    await shape.rows
    await first.stop()
    await say(mine, 'meanwhile')
    await pollUntil('a refused poll', () => told.length > 0)
    const second = await startSyncServer({ ...options, port: first.port })
    onTestFinished(() => second.stop())
    await pollUntil('what was missed', () => contents(shape).includes('meanwhile'))
    await say(mine, 'after')
    await pollUntil('what came after', () => contents(shape).includes('after'))
    expect(contents(shape)).toEqual(['after', 'before', 'meanwhile'])
  },
)
