/**
 * The connection breaks around one statement: before it was sent, or after it had committed and before its answer
 * came. In the second case the worker knows less than the rows, and it is alive, so nobody recovers what it holds.
 */
import type { PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import type postgres from 'postgres'
import { beforeAll, describe, expect, test } from 'vitest'
import { claimGenerationsStatement } from '../../src/claims/claim-generations.js'
import { claimToolCallsStatement } from '../../src/claims/claim-tool-calls.js'
import { recordStepStatement } from '../../src/claims/record-step.js'
import { settleGenerationStatement } from '../../src/claims/settle-generation.js'
import { settleToolCallStatement } from '../../src/claims/settle-tool-calls.js'
import { loadStatement } from '../../src/agent/load.js'
import { tableNames, type Statement } from '../../src/internal/statement.js'
import type { ToolContext } from '../../src/tools/run-tool.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import {
  messageRows,
  say,
  scripted,
  startExecutor,
  startReader,
  startWorker,
  toolCallRows,
} from '../worker/turn-world.js'

type Break = 'before it is sent' | 'after it has committed'

let database: TestDatabase

beforeAll(async () => {
  database = await createTestDatabase()
})

/** A database whose connection breaks once, around the first such statement that concerns rows. */
function brokenAround(
  db: PostgresJsDatabase & { $client: postgres.Sql },
  statement: Pick<Statement<never, never>, 'text'>,
  when: Break,
) {
  const text = statement.text(tableNames('ai_db'))
  const broken = Object.assign(new Error('write CONNECTION_CLOSED'), { code: 'CONNECTION_CLOSED' })
  let left = 1
  const client = new Proxy(db.$client, {
    get(target, name) {
      if (name !== 'unsafe') return Reflect.get(target, name) as unknown
      return async (...query: Parameters<typeof target.unsafe>) => {
        if (query[0] !== text || left === 0) return target.unsafe(...query)
        if (when === 'before it is sent') {
          left -= 1
          throw broken
        }
        const rows = await target.unsafe(...query)
        if (rows.length === 0 || left-- <= 0) return rows
        throw broken
      }
    },
  })
  return {
    db: { execute: db.execute.bind(db), $client: client },
    get happened() {
      return left === 0
    },
  }
}

const settings = { pollIntervalMs: 60_000, leaseMs: 10_000 }

function lookup(executions: number[]) {
  return {
    name: 'lookup',
    description: 'Looks up',
    execute: (_args: never, { attempt }: ToolContext) => (executions.push(attempt), { found: 42 }),
  }
}

const script = [
  { text: 'I will look.', toolCalls: [{ name: 'lookup', args: {} }] },
  { text: 'It is 42.' },
]

// Executions: attempt 2 tells a tool that an earlier one began, or may have.
const cases: [name: string, Pick<Statement<never, never>, 'text'>, Record<Break, number[]>][] = [
  ['a claim', claimGenerationsStatement, both([1])],
  ['the load of a turn', loadStatement, both([1])],
  [
    'the record of a step',
    recordStepStatement,
    { 'before it is sent': [1], 'after it has committed': [2] },
  ],
  [
    'the settlement of a tool call',
    settleToolCallStatement,
    { 'before it is sent': [1, 2], 'after it has committed': [1] },
  ],
  ['the cutover', settleGenerationStatement, both([1])],
]

function both(attempts: number[]): Record<Break, number[]> {
  return { 'before it is sent': attempts, 'after it has committed': attempts }
}

describe.each(['before it is sent', 'after it has committed'] as const)(
  'the connection breaks %s',
  (when) => {
    test.each(cases)(
      '%s: the worker goes on from the rows by itself, and the answer comes once',
      async (_name, statement, executions) => {
        const broken = brokenAround(database.db, statement, when)
        const executed: number[] = []
        // Asked again, the model says the same: by what it has been told, and not by how often.
        const respond = ({ messages }: { messages: readonly { role: string }[] }) =>
          script[messages.at(-1)!.role === 'tool' ? 1 : 0]!
        const { agent } = scripted(respond, { tools: [lookup(executed)] })
        await startWorker({ ...settings, db: broken.db, agents: [agent] }, { allowErrors: true })
        const { generationId, sessionId } = await say(database.db, 'Look')
        const reader = startReader(database.db, generationId)
        expect(await reader.ended).toMatchObject({
          status: 'completed',
          text: 'I will look.\n\nIt is 42.',
        })
        expect(broken.happened).toBe(true)
        expect(executed).toEqual(executions[when])
        expect((await messageRows(database.sql, sessionId)).map(({ role }) => role)).toEqual([
          'user',
          'assistant',
        ])
        expect(await toolCallRows(database.sql, generationId)).toMatchObject([
          { status: 'completed', result: { found: 42 } },
        ])
      },
    )

    const remote: typeof cases = [
      ['the claim of a tool call', claimToolCallsStatement, both([1])],
      ['its settlement', settleToolCallStatement, both([1])],
    ]
    test.each(remote)('%s by an executor: the call settles once', async (name, statement) => {
      const broken = brokenAround(database.connect(), statement, when)
      const executed: number[] = []
      const { execute: _, ...described } = lookup([])
      const { agent } = scripted(script, { tools: [described], parkAfterMs: 0 })
      await startWorker({ ...settings, db: database.db, agents: [agent] })
      const tools = [lookup(executed)]
      await startExecutor({ ...settings, db: broken.db, tools }, { allowErrors: true })
      const { generationId } = await say(database.db, 'Look')
      const reader = startReader(database.db, generationId)
      expect(await reader.ended).toMatchObject({
        status: 'completed',
        text: 'I will look.\n\nIt is 42.',
      })
      expect(broken.happened).toBe(true)
      const lostClaim = name.startsWith('the claim') && when === 'after it has committed'
      expect(executed).toEqual([lostClaim ? 2 : 1])
    })
  },
)
