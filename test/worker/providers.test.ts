/** Model providers that fail: tried again with a delay, told to readers, and given up on in the end, with the reason. */
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { ScriptedTurn } from '../../src/testing.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import {
  generationRow,
  messageRows,
  say,
  scripted,
  startReader,
  startWorker,
  untilSettled,
} from './turn-world.js'

let database: TestDatabase

beforeAll(async () => {
  database = await createTestDatabase()
})

// chat() prints each failure; here they are what is wanted.
beforeEach(() => {
  for (const method of ['error', 'log', 'dir'] as const)
    vi.spyOn(console, method).mockImplementation(() => undefined)
})
afterEach(() => vi.restoreAllMocks())

const retryDelayMs = () => 20
/** Retries wake their worker by themselves: none is left to the poll. */
const pollIntervalMs = 60_000
const TEXT = 'The whole answer, from its beginning to its end.'

const failures: [what: string, turn: ScriptedTurn, told: string][] = [
  ['throws', { then: 'throw', error: 'no route to the model' }, 'no route to the model'],
  ['reports an error', { then: 'error', error: 'overloaded' }, 'overloaded'],
  ['goes silent', { then: 'hang' }, 'sent nothing for 100 ms'],
  [
    'breaks off in the middle of its text',
    { text: 'The whole answer, and then', then: 'throw', error: 'reset' },
    'reset',
  ],
]

describe.each(failures)('a provider that %s', (_what, bad, told) => {
  const options = { retryDelayMs, idleTimeoutMs: 100 }

  test('twice, then answers: the turn is tried again, and the transcript is only the answer', async () => {
    const { adapter, agent } = scripted([bad, bad, { text: TEXT }], options)
    const { events } = await startWorker({ db: database.db, agents: [agent], pollIntervalMs })
    const { generationId, sessionId } = await say(database.db, 'Go')
    const reader = startReader(database.db, generationId)
    expect(await reader.ended).toMatchObject({ text: TEXT, status: 'completed' })
    expect(reader.text).toBe(TEXT)
    expect(events.of('retrying').map(({ attempt, delayMs }) => [attempt, delayMs])).toEqual([
      [1, 20],
      [2, 20],
    ])
    expect(events.of('retrying')[0]!.error.message).toContain(told)
    expect(adapter.calls).toHaveLength(3)
    const rows = await messageRows(database.sql, sessionId)
    expect(rows.map(({ content }) => content)).toEqual(['Go', TEXT])
    expect(await generationRow(database.sql, generationId)).toMatchObject({
      status: 'completed',
      attempt: 3,
      error: null,
    })
  })

  test('every time: fails after maxAttempts with the reason, and the next message has its turn', async () => {
    const { adapter, agent } = scripted([bad, bad, { text: 'Better now.' }], {
      ...options,
      maxAttempts: 2,
    })
    const { events } = await startWorker({ db: database.db, agents: [agent], pollIntervalMs })
    const { generationId, sessionId, messageId } = await say(database.db, 'Go')
    const reader = startReader(database.db, generationId)
    const last = await reader.ended
    expect(last).toMatchObject({ status: 'failed', error: expect.stringContaining(told) })
    expect(last.text).toBe(bad.text ?? '')
    expect(await events.untilType('failed')).toMatchObject({ generationId, attempt: 2 })
    expect(adapter.calls).toHaveLength(2)
    expect(await messageRows(database.sql, sessionId)).toMatchObject([
      { id: messageId, processed: true, processed_by: generationId },
    ])
    const late = startReader(database.db, generationId)
    expect(await late.ended).toMatchObject({ status: 'failed', error: last.error })
    const next = await say(database.db, 'Again', { sessionId })
    expect(await untilSettled(database.db, next.generationId)).toMatchObject({
      content: 'Better now.',
    })
  })
})

describe('a provider that fails between steps', () => {
  test('costs only the step: the tool that had reported is not run again, and its failures do not add up', async () => {
    const executed: number[] = []
    const count = {
      name: 'count',
      description: 'Counts',
      execute: ({ n }: { n: number }) => executed.push(n),
    }
    const call = (n: number) => ({ toolCalls: [{ name: 'count', args: { n } }] })
    const bad: ScriptedTurn = { then: 'error', error: 'overloaded' }
    const { agent } = scripted([bad, call(1), bad, call(2), bad, { text: 'Done.' }], {
      tools: [count],
      maxAttempts: 2,
      retryDelayMs,
    })
    await startWorker({ db: database.db, agents: [agent], pollIntervalMs })
    const { generationId } = await say(database.db, 'Count')
    expect(await untilSettled(database.db, generationId)).toMatchObject({ content: 'Done.' })
    expect(executed).toEqual([1, 2])
    expect(await generationRow(database.sql, generationId)).toMatchObject({ attempt: 4, step: 2 })
  })

  test('with onInterrupted continue: what was shown stays, and the model is given it to go on from', async () => {
    const { adapter, agent } = scripted(
      [{ text: 'The whole ', then: 'throw' }, { text: 'answer.' }],
      { onInterrupted: 'continue', retryDelayMs },
    )
    await startWorker({ db: database.db, agents: [agent], pollIntervalMs })
    const { generationId } = await say(database.db, 'Go')
    const reader = startReader(database.db, generationId)
    expect(await reader.ended).toMatchObject({ text: 'The whole answer.', status: 'completed' })
    expect(reader.updates.filter(({ update }) => update.rewritten)).toEqual([])
    expect(adapter.calls[1]!.messages.at(-1)).toMatchObject({
      role: 'assistant',
      content: 'The whole ',
    })
  })
})
