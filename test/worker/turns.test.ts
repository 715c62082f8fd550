/** Turns as they should go: what they cost, which messages they answer, and what the model is told. */
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { z } from 'zod'
import type { ScriptedTurn } from '../../src/testing.js'
import { EFFECTS_TABLE } from '../support/child-worker-agents.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { spawnWorkerProcess } from '../support/worker-process.js'
import { countedDatabase } from './counted-database.js'
import {
  generationRow,
  messageRows,
  say,
  scripted,
  startReader,
  startWorker,
  toolCallRows,
  untilSettled,
} from './turn-world.js'

let database: TestDatabase

beforeAll(async () => {
  database = await createTestDatabase()
  await database.sql.unsafe(EFFECTS_TABLE)
})

const double = {
  name: 'double',
  description: 'Doubles a number',
  inputSchema: z.object({ n: z.number() }),
  execute: ({ n }: { n: number }) => ({ doubled: n * 2 }),
}

function deferred() {
  let resolve!: () => void
  const promise = new Promise<void>((settle) => (resolve = settle))
  return { promise, resolve }
}

describe('what a turn costs', () => {
  test('a turn without tools sends at most four statements from its claim to its cutover', async () => {
    const counted = countedDatabase(database.db)
    const { agent } = scripted([{ text: 'Hello there, this is all.' }])
    const { events } = await startWorker({ db: counted.db, agents: [agent] })
    const { generationId } = await say(database.db, 'Hi')
    await events.untilType('completed')
    expect(counted.ofTurns.length, counted.ofTurns.join('\n')).toBeLessThanOrEqual(4)
    expect(counted.ofTurns.length, 'it did count').toBeGreaterThanOrEqual(3)
    expect((await untilSettled(database.db, generationId)).content).toBe(
      'Hello there, this is all.',
    )
  })

  test('a tool call of the same worker costs at most three statements more', async () => {
    const counted = countedDatabase(database.db)
    const calls = [1, 2, 3].map((n) => ({ name: 'double', args: { n } }))
    const { agent } = scripted([{ toolCalls: calls }, { text: 'Done.' }], { tools: [double] })
    const { events } = await startWorker({ db: counted.db, agents: [agent] })
    await say(database.db, 'Double 1, 2 and 3')
    await events.untilType('completed')
    expect(counted.ofTurns.length, counted.ofTurns.join('\n')).toBeLessThanOrEqual(4 + 3 * 3)
  })

  test('a turn ten times as long costs the same statements, as its tokens go to the stream', async () => {
    const counted = countedDatabase(database.db)
    const text = Array.from({ length: 400 }, (_, n) => `token${n}`).join(' ')
    const { agent } = scripted([{ text }])
    const { events } = await startWorker({ db: counted.db, agents: [agent] })
    await say(database.db, 'At length')
    await events.untilType('completed')
    expect(counted.ofTurns.length, counted.ofTurns.join('\n')).toBeLessThanOrEqual(4)
  })
})

describe('which messages a turn answers', () => {
  test('several messages sent before the claim are one turn, in the order they were sent', async () => {
    const { adapter, agent } = scripted([{ text: 'All three.' }])
    const first = await say(database.db, 'one', { queueForUnknownAgent: true })
    const { sessionId } = first
    await say(database.db, 'two', { sessionId })
    const third = await say(database.db, 'three', { sessionId })
    expect(third.generationId).toBe(first.generationId)
    const { events } = await startWorker({ db: database.db, agents: [agent] })
    await events.untilType('completed')
    expect(adapter.calls).toHaveLength(1)
    expect(adapter.calls[0]!.messages.map((m) => m.content)).toEqual(['one', 'two', 'three'])
    const rows = await messageRows(database.sql, sessionId)
    expect(rows.map(({ content }) => content)).toEqual(['one', 'two', 'three', 'All three.'])
    expect(rows.every((row) => row.processed)).toBe(true)
    const inbox = rows.slice(0, 3).map((row) => row.id)
    expect((await generationRow(database.sql, first.generationId)).inbox).toEqual(inbox)
  })

  test('messages that arrive while a turn runs are the next one’s, together, and see its answer', async () => {
    const [began, goOn] = [deferred(), deferred()]
    const { adapter, agent } = scripted([
      { text: 'First answer.', beforeToken: () => (began.resolve(), goOn.promise) },
      { text: 'Second answer.' },
    ])
    const { events } = await startWorker({ db: database.db, agents: [agent] })
    const first = await say(database.db, 'first')
    await began.promise
    const { sessionId } = first
    const second = await say(database.db, 'second', { sessionId })
    const third = await say(database.db, 'third', { sessionId })
    expect(second.generationId).not.toBe(first.generationId)
    expect(third.generationId).toBe(second.generationId)
    goOn.resolve()
    await events.untilType('completed', 2)
    expect(adapter.calls.map(({ messages }) => messages.map((m) => [m.role, m.content]))).toEqual([
      [['user', 'first']],
      [
        ['user', 'first'],
        ['assistant', 'First answer.'],
        ['user', 'second'],
        ['user', 'third'],
      ],
    ])
    const generations = await database.sql`
      select status from ai_db.generations where session_id = ${sessionId}`
    expect(generations.map((row) => row.status)).toEqual(['completed', 'completed'])
  })

  test('a generation whose inbox is empty settles without a message and without asking the model', async () => {
    const { adapter, agent } = scripted([])
    const { sessionId, generationId } = await say(database.db, 'never mind')
    await database.sql`delete from ai_db.messages where session_id = ${sessionId}`
    const { events } = await startWorker({ db: database.db, agents: [agent] })
    expect(await events.untilType('completed')).toMatchObject({ generationId, messageId: null })
    expect(adapter.calls).toEqual([])
    expect(await messageRows(database.sql, sessionId)).toEqual([])
    const reader = startReader(database.db, generationId)
    expect(await reader.ended).toMatchObject({ text: '', status: 'completed' })
  })
})

describe('what the model is told', () => {
  test('turns before this one with their tool calls and results, in order', async () => {
    const turns: ScriptedTurn[] = [
      {
        text: 'Let me see.',
        toolCalls: [
          { id: 'call-1', name: 'double', args: { n: 1 } },
          { id: 'call-2', name: 'double', args: { n: 2 } },
        ],
      },
      { toolCalls: [{ id: 'call-3', name: 'double', args: { n: 4 } }] },
      { text: 'It is 8.' },
      { text: 'You are welcome.' },
    ]
    const { adapter, agent } = scripted(turns, { tools: [double] })
    const { events } = await startWorker({ db: database.db, agents: [agent] })
    const { sessionId, generationId } = await say(database.db, 'Double it')
    await events.untilType('completed')
    const thanks = await say(database.db, 'Thanks', { sessionId })
    await events.untilType('completed', 2)
    const result = (toolCallId: string, doubled: number) =>
      expect.objectContaining({ role: 'tool', toolCallId, content: JSON.stringify({ doubled }) })
    const asked = (content: string | null, ...ids: string[]) =>
      expect.objectContaining({
        role: 'assistant',
        content,
        toolCalls: ids.map((id) => expect.objectContaining({ id, type: 'function' })),
      })
    const history = [
      expect.objectContaining({ role: 'user', content: 'Double it' }),
      asked('Let me see.', 'call-1', 'call-2'),
      result('call-1', 2),
      result('call-2', 4),
      asked(null, 'call-3'),
      result('call-3', 8),
    ]
    expect(adapter.calls[1]!.messages).toEqual(history.slice(0, 4))
    expect(adapter.calls[2]!.messages).toEqual(history)
    expect(adapter.calls[3]!.messages).toEqual([
      ...history,
      expect.objectContaining({ role: 'assistant', content: 'It is 8.' }),
      expect.objectContaining({ role: 'user', content: 'Thanks' }),
    ])
    expect(adapter.calls.every((call) => call.systemPrompts[0] === 'Be brief.')).toBe(true)
    const rows = await messageRows(database.sql, sessionId)
    expect(rows[1]).toMatchObject({
      content: 'Let me see.\n\nIt is 8.',
      parts: [
        { type: 'text', step: 0, text: 'Let me see.' },
        { type: 'tool-call', step: 0, id: 'call-1' },
        { type: 'tool-call', step: 0, id: 'call-2' },
        { type: 'tool-call', step: 1, id: 'call-3' },
        { type: 'text', step: 2, text: 'It is 8.' },
      ],
    })
    expect(await generationRow(database.sql, generationId)).toMatchObject({ step: 2, attempt: 1 })
    expect((await untilSettled(database.db, thanks.generationId)).content).toBe('You are welcome.')
  })

  test('the same history as before, when another worker serves the next turn', async () => {
    const script = { tools: [double] }
    const one = scripted(
      [{ toolCalls: [{ name: 'double', args: { n: 3 } }] }, { text: 'Six.' }],
      script,
    )
    const first = await startWorker({ db: database.db, agents: [one.agent] })
    const { sessionId } = await say(database.db, 'Twice three')
    await first.events.untilType('completed')
    await first.worker.stop()
    const two = scripted([{ text: 'As I said.' }], script)
    const second = await startWorker({ db: database.connect(), agents: [two.agent] })
    await say(database.db, 'Again?', { sessionId })
    await second.events.untilType('completed')
    expect(two.adapter.calls[0]!.messages.slice(0, 3)).toEqual(one.adapter.calls[1]!.messages)
    expect(two.adapter.calls[0]!.messages.slice(3).map((m) => m.content)).toEqual([
      'Six.',
      'Again?',
    ])
  })

  test('a system message as what it is, in its place', async () => {
    const { adapter, agent } = scripted([{ text: 'Noted.' }])
    const { events } = await startWorker({ db: database.db, agents: [agent] })
    await say(database.db, 'The deploy is done.', { role: 'system' })
    await events.untilType('completed')
    expect(adapter.calls[0]!.messages.map((m) => [m.role, m.content])).toEqual([
      ['user', '[System] The deploy is done.'],
    ])
  })

  test('no more than historyLimit messages, the newest', async () => {
    const { adapter, agent } = scripted([{ text: 'ok' }], { historyLimit: 2 })
    const { sessionId } = await say(database.db, 'one')
    await say(database.db, 'two', { sessionId })
    await say(database.db, 'three', { sessionId })
    const { events } = await startWorker({ db: database.db, agents: [agent] })
    await events.untilType('completed')
    expect(adapter.calls[0]!.messages.map((m) => m.content)).toEqual(['two', 'three'])
  })
})

describe('how a turn ends', () => {
  test('tokens of all its steps, the model and the finish reason are on the row', async () => {
    const usage = (promptTokens: number, completionTokens: number) => ({
      ...{ promptTokens, completionTokens, totalTokens: promptTokens + completionTokens },
    })
    const turns: ScriptedTurn[] = [
      { toolCalls: [{ name: 'double', args: { n: 1 } }], usage: usage(10, 4), responseId: 'r-1' },
      { text: 'Two.', usage: usage(20, 5), responseId: 'r-2' },
    ]
    const { agent } = scripted(turns, { tools: [double] })
    await startWorker({ db: database.db, agents: [agent] })
    const { generationId } = await say(database.db, 'Double 1')
    await untilSettled(database.db, generationId)
    expect(await generationRow(database.sql, generationId)).toMatchObject({
      status: 'completed',
      model: 'scripted',
      finish_reason: 'stop',
      input_tokens: 30,
      output_tokens: 9,
      provider_response_id: 'r-2',
    })
    const chunks = await database.sql`
      select * from ai_db.chunks where generation_id = ${generationId}`
    expect(chunks, 'folded into the message').toEqual([])
  })

  test('a model that never stops asking for tools fails after maxSteps, what it did is kept', async () => {
    const respond = () => ({ text: 'Once more.', toolCalls: [{ name: 'double', args: { n: 1 } }] })
    const { adapter, agent } = scripted(respond, { tools: [double], maxSteps: 2 })
    const { events } = await startWorker({ db: database.db, agents: [agent] })
    const { sessionId, generationId } = await say(database.db, 'For ever')
    await events.untilType('failed')
    expect(adapter.calls).toHaveLength(2)
    const row = await untilSettled(database.db, generationId)
    expect(row).toMatchObject({ status: 'failed', error: expect.stringContaining('maxSteps') })
    const calls = await toolCallRows(database.sql, generationId)
    expect(calls.map((call) => call.status)).toEqual(['completed', 'completed'])
    expect((await messageRows(database.sql, sessionId)).map((m) => [m.role, m.processed])).toEqual([
      ['user', true],
      ['assistant', true],
    ])
  })
})

describe('several agents', () => {
  test('two agents of one session run side by side and each sees what was said to it', async () => {
    const [goOn, bothBegan] = [deferred(), deferred()]
    let began = 0
    const turn = (text: string) => ({
      text,
      beforeToken: () => {
        if (++began === 2) bothBegan.resolve()
        return goOn.promise
      },
    })
    const writer = scripted([turn('Written.')], { name: 'writer' })
    const critic = scripted([turn('Criticised.')], { name: 'critic' })
    const { events } = await startWorker({ db: database.db, agents: [writer.agent, critic.agent] })
    const { sessionId } = await say(database.db, 'Write', { targetAgent: 'writer' })
    await say(database.db, 'Criticise', { sessionId, targetAgent: 'critic' })
    await bothBegan.promise
    goOn.resolve()
    await events.untilType('completed', 2)
    expect(writer.adapter.calls[0]!.messages.map((m) => m.content)).toEqual(['Write'])
    expect(critic.adapter.calls[0]!.messages.map((m) => m.content)).toEqual(['Criticise'])
  })

  const asks = [{ agent: 'helper', description: 'Knows things', timeout: 10_000 }]
  const askingTurns: ScriptedTurn[] = [
    { toolCalls: [{ id: crypto.randomUUID(), name: 'helper', args: { message: 'What is it?' } }] },
    { text: 'It is that.' },
  ]

  test('an agent that asks another gets the reply as the result of its call', async () => {
    // Neither parked nor polled: the answer itself has to ring, in the worker that gives it as well.
    const asker = scripted(askingTurns, { agents: asks, parkAfterMs: 60_000 })
    const helper = scripted([{ text: 'It is that, says the helper.' }], { name: 'helper' })
    const agents = [asker.agent, helper.agent]
    const { events } = await startWorker({ db: database.db, agents, pollIntervalMs: 60_000 })
    const { sessionId, generationId } = await say(database.db, 'Ask')
    await events.untilType('completed', 2)
    await untilSettled(database.db, generationId)
    const [call] = await toolCallRows(database.sql, generationId)
    expect(call).toMatchObject({
      name: 'helper',
      status: 'completed',
      result: { response: 'It is that, says the helper.' },
    })
    expect(helper.adapter.calls[0]!.messages.map((m) => m.content)).toEqual(['What is it?'])
    expect(asker.adapter.calls).toHaveLength(2)
    const rows = await messageRows(database.sql, sessionId)
    const question = rows.find((row) => row.target_agent === 'helper')!
    const reply = rows.find((row) => row.in_reply_to !== null)!
    expect(question).toMatchObject({ actor_id: 'assistant', request_id: call!.id })
    expect(reply).toMatchObject({ in_reply_to: call!.id, actor_id: 'helper', role: 'assistant' })
  })

  test('and so it does when each of the two is served by a process of its own', async () => {
    await using processOfHelper = await spawnWorkerProcess()
    await using processOfAsker = await spawnWorkerProcess()
    const common = { databaseUrl: database.url, streamsUrl: inject('streamsUrl') }
    // Parked at once: the asker's slot is given back while the helper works.
    const options = { parkAfterMs: 0 }
    const asking = await processOfAsker.serve({
      ...common,
      agents: [{ name: 'asker', script: 'asks-helper', options }],
    })
    const helping = await processOfHelper.serve({
      ...common,
      agents: [{ name: 'helper', script: 'echo' }],
    })
    const { generationId } = await say(database.db, 'Ping', { targetAgent: 'asker' })
    const { content } = await untilSettled(database.db, generationId)
    expect(content).toBe('The helper says {"response":"echo: Ping"}')
    expect(helping.events.of('completed')).toHaveLength(1)
    await asking.events.untilType('completed')
    expect(asking.events.of('put-down')).toMatchObject([{ reason: 'tools' }])
    await asking.stop()
    await helping.stop()
  })

  test('an agent that nobody serves fails the call when its time is up, and the asker is told', async () => {
    const asker = scripted(
      [{ toolCalls: [{ name: 'nobody', args: { message: 'Anyone?' } }] }, { text: 'Nobody came.' }],
      { agents: [{ agent: 'nobody', description: 'Is not there', timeout: 200 }], parkAfterMs: 0 },
    )
    await startWorker({ db: database.db, agents: [asker.agent], leaseMs: 600 })
    const { generationId } = await say(database.db, 'Ask nobody')
    expect(await untilSettled(database.db, generationId)).toMatchObject({ content: 'Nobody came.' })
    const [call] = await toolCallRows(database.sql, generationId)
    expect(call).toMatchObject({ status: 'failed', error: expect.stringContaining('in time') })
    expect(asker.adapter.calls[1]!.messages.at(-1)).toMatchObject({
      role: 'tool',
      content: expect.stringContaining('nobody executed it in time'),
    })
  })
})
