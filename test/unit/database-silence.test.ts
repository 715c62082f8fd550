import { drizzle } from 'drizzle-orm/node-postgres'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { toDatabase } from '../../src/internal/database.js'
import { statement } from '../../src/internal/statement.js'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const select = statement<[], { one: number }>('select_one', () => 'select 1 as one')

function databaseThatAnswers(rows: Promise<{ one: number }[]>) {
  const client = { connect: () => undefined, query: async () => ({ rows: await rows }) }
  return toDatabase(drizzle({ client: client as never }))
}

test('a query the driver lost is an error after a while, and does not hold its work for ever', async () => {
  const lost = databaseThatAnswers(new Promise(() => undefined)).query(select, [])
  const refused = expect(lost).rejects.toMatchObject({
    code: 'DATABASE_UNREACHABLE',
    message: expect.stringContaining('select_one had no answer for 10000 ms') as string,
  })
  await vi.advanceTimersByTimeAsync(10_000)
  await refused
})

test('an answer leaves no timer behind', async () => {
  const rows = await databaseThatAnswers(Promise.resolve([{ one: 1 }])).query(select, [])
  expect(rows).toEqual([{ one: 1 }])
  expect(vi.getTimerCount()).toBe(0)
})
