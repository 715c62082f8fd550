/** Each verb over HTTP: what it does, what a repeat of it does, and what is said to a body that does not fit. */
import { beforeAll, describe, expect, test } from 'vitest'
import { paths } from '../../src/contract/requests.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { createWorld, fresh, problemOf, sessionOf, type World } from './handler-world.js'

let database: TestDatabase
let world: World

beforeAll(async () => {
  database = await createTestDatabase()
  world = await createWorld({ db: database.db })
})

describe('send', () => {
  test('a message becomes a row, its author the actor, and its txid is the one of the row', async () => {
    const sessionId = await sessionOf(database.db, 'alice')
    const id = fresh('message')
    const answer = await world.call('POST', paths.messages(sessionId), {
      body: { id, content: 'Hello', metadata: { from: 'a test' } },
    })
    expect(answer.status).toBe(200)
    const [row] = await database.sql`
      select actor_id, target_agent, metadata, xmin::text as xmin from ai_db.messages where id = ${id}`
    expect(answer.body).toEqual({ id, txid: Number(row!['xmin']) })
    expect(row).toMatchObject({
      actor_id: 'alice',
      target_agent: 'assistant',
      metadata: { from: 'a test' },
    })
  })

  test('what is wrong with a body is said with its field, and nothing is written', async () => {
    const sessionId = await sessionOf(database.db, 'alice')
    const answer = await world.call('POST', paths.messages(sessionId), { body: { id: 'x' } })
    expect(answer.status).toBe(400)
    expect(problemOf(answer)).toMatchObject({ code: 'INVALID_INPUT', field: 'content' })
    expect(answer.headers.get('content-type')).toBe('application/problem+json')
  })
})
