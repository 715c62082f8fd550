/** Tools: side by side, bounded in time, told to the model whatever becomes of them, and run by any process. */
import { beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { cancelGeneration } from '../../src/claims/cancel.js'
import type { AgentOptions } from '../../src/agent/agent-options.js'
import { toDatabase } from '../../src/internal/database.js'
import type { RunnableTool, ToolContext } from '../../src/tools/run-tool.js'
import type { ScriptedTurn } from '../../src/testing.js'
import { EFFECTS_TABLE } from '../support/child-worker-agents.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { pollUntil } from '../support/poll-until.js'
import { spawnWorkerProcess } from '../support/worker-process.js'
import {
  generationRow,
  messageRows,
  say,
  scripted,
  startExecutor,
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

function tool(name: string, execute?: RunnableTool['execute'], more: Partial<RunnableTool> = {}) {
  return { name, description: name, ...(execute && { execute }), ...more }
}

/** A tool only described: another process has its function. */
const described = (name: string) => tool(name, undefined, { inputSchema: z.object({}).loose() })

const forEver = () => new Promise<never>(() => undefined)

/** A turn that calls tools, then one that answers; the calls' rows and what the model was told of them. */
async function turnWith(
  calls: NonNullable<ScriptedTurn['toolCalls']>,
  tools: readonly RunnableTool[],
  options: Partial<AgentOptions> = {},
) {
  const { adapter, agent } = scripted([{ toolCalls: calls }, { text: 'So be it.' }], {
    tools,
    ...options,
  })
  await startWorker({ db: database.db, agents: [agent] })
  const { generationId } = await say(database.db, 'Do it')
  expect(await untilSettled(database.db, generationId)).toMatchObject({ status: 'completed' })
  const told = adapter.calls[1]!.messages.filter((message) => message.role === 'tool')
  return {
    calls: await toolCallRows(database.sql, generationId),
    told: told.map(({ content }) => JSON.parse(String(content)) as unknown),
  }
}

const failure = (text: string) => ({ error: expect.stringContaining(text) as string })

describe('the tools of one turn', () => {
  test('run side by side: two that wait for each other do not wait for ever', async () => {
    let arrived = 0
    let open!: () => void
    const both = new Promise<void>((resolve) => (open = resolve))
    const meet = async () => {
      if (++arrived === 2) open()
      await both
      return 'met'
    }
    const { calls } = await turnWith(
      [
        { name: 'left', args: {} },
        { name: 'right', args: {} },
      ],
      [tool('left', meet), tool('right', meet)],
    )
    expect(calls.map(({ result }) => result)).toEqual(['met', 'met'])
  })

  test('get their call’s id and attempt, and arguments as their schema made them', async () => {
    const seen: unknown[] = []
    const inputSchema = z.object({ n: z.coerce.number(), unit: z.string().default('m') })
    const { calls } = await turnWith(
      [{ id: 'call-with-id', name: 'measure', args: { n: '7' } }],
      [
        tool(
          'measure',
          (args: unknown, context: ToolContext) => {
            const { toolCallId, attempt, abortSignal } = context
            seen.push({ args, toolCallId, attempt, aborted: abortSignal.aborted })
            return null
          },
          { inputSchema },
        ),
      ],
    )
    expect(seen).toEqual([
      { args: { n: 7, unit: 'm' }, toolCallId: 'call-with-id', attempt: 1, aborted: false },
    ])
    expect(calls[0]).toMatchObject({ status: 'completed', result: null, args: { n: '7' } })
  })
})

describe('a tool that does not do as it should fails its call, and the model is told why', () => {
  const typed = tool('typed', () => 1, { inputSchema: z.object({ n: z.number() }) })
  const cases: [what: string, call: { name: string; args: unknown }, RunnableTool[], string][] = [
    [
      'throws',
      { name: 'bad', args: {} },
      [
        tool('bad', () => {
          throw new Error('the oven is cold')
        }),
      ],
      'the oven is cold',
    ],
    ['is not there', { name: 'loookup', args: {} }, [tool('lookup', () => 1)], "mean 'lookup'"],
    ['gets malformed JSON', { name: 'typed', args: '{"n": 1' }, [typed], 'not valid JSON'],
    ['gets arguments that fail its schema', { name: 'typed', args: { n: 'x' } }, [typed], 'n: '],
    [
      'returns what its schema refuses',
      { name: 'out', args: {} },
      [tool('out', () => ({ n: 'x' }), { outputSchema: z.object({ n: z.number() }) })],
      'result of out',
    ],
    ['returns a BigInt', { name: 'big', args: {} }, [tool('big', () => 1n)], 'is not JSON'],
    [
      'returns a circle',
      { name: 'circle', args: {} },
      [
        tool('circle', () => {
          const circle: Record<string, unknown> = {}
          return (circle.self = circle)
        }),
      ],
      'is not JSON',
    ],
  ]
  test.each(cases)('one that %s', async (_what, call, tools, reason) => {
    const { calls, told } = await turnWith([call], tools)
    expect(calls).toMatchObject([{ status: 'failed', error: expect.stringContaining(reason) }])
    expect(told).toEqual([failure(reason)])
  })

  test('one that ignores its abort signal cannot hang the turn: its time is up', async () => {
    const { calls, told } = await turnWith(
      [
        { name: 'stuck', args: {} },
        { name: 'fine', args: {} },
      ],
      [tool('stuck', forEver), tool('fine', () => 'fine')],
      { toolTimeoutMs: 100 },
    )
    expect(calls.map(({ status }) => status)).toEqual(['failed', 'completed'])
    expect(told).toEqual([failure('took longer than 100 ms'), 'fine'])
  })

  test('one that ignores its abort signal does not hold up a cancel', async () => {
    let began!: () => void
    const running = new Promise<void>((resolve) => (began = resolve))
    const stuck = tool('stuck', () => (began(), forEver()))
    const { agent } = scripted([{ text: 'Wait.', toolCalls: [{ name: 'stuck', args: {} }] }], {
      tools: [stuck],
    })
    const { worker, events } = await startWorker({ db: database.db, agents: [agent] })
    const { generationId } = await say(database.db, 'Do it')
    await running
    await cancelGeneration(toDatabase(database.db), generationId)
    await events.untilType('cancelled')
    await pollUntil('the slot being free', () => worker.running === 0)
    expect(await toolCallRows(database.sql, generationId)).toMatchObject([
      { status: 'cancelled', cancel_reason: 'by-user' },
    ])
  })
})

describe('what Postgres cannot store', () => {
  test('one cancelled by itself, from psql, is told to the model, and the turn goes on', async () => {
    const { calls, told } = await turnWith(
      [{ name: 'doomed', args: {} }],
      [
        tool('doomed', async () => {
          await database.sql`
            update ai_db.tool_calls set status = 'cancelled', cancel_reason = 'by-user', completed_at = now()
             where name = 'doomed' and status = 'executing'`
          return 'too late'
        }),
      ],
    )
    expect(calls).toMatchObject([{ status: 'cancelled', result: null }])
    expect(told).toEqual([failure('was cancelled')])
  })

  test('NUL and lone surrogates in text, arguments and results become U+FFFD, and nothing fails', async () => {
    const { agent } = scripted(
      [
        { text: 'a\0b', toolCalls: [{ name: 'echo', args: { text: 'c\0d\ud800' } }] },
        { text: 'e\0f' },
      ],
      { tools: [tool('echo', ({ text }: { text: string }) => ({ text }))] },
    )
    const { events } = await startWorker({ db: database.db, agents: [agent] })
    const { generationId, sessionId } = await say(database.db, 'Odd')
    const reader = startReader(database.db, generationId)
    await events.untilType('completed')
    const [call] = await toolCallRows(database.sql, generationId)
    expect(call).toMatchObject({
      args: { text: 'c\ufffdd\ufffd' },
      result: { text: 'c\ufffdd\ufffd' },
    })
    const [, answer] = await messageRows(database.sql, sessionId)
    expect(answer!.content).toBe('a\ufffdb\n\ne\ufffdf')
    expect((await reader.ended).text).toBe(answer!.content)
  })
})

describe('ids of calls', () => {
  test('a provider that repeats an id, over steps and over generations, gets each call its own row and result', async () => {
    const call = (n: number) => [{ id: 'call_0', name: 'count', args: { n } }]
    const { adapter, agent } = scripted(
      [
        { toolCalls: call(1) },
        { toolCalls: call(2) },
        { text: 'Two.' },
        { toolCalls: call(3) },
        { text: 'Three.' },
      ],
      { tools: [tool('count', ({ n }: { n: number }) => ({ counted: n }))] },
    )
    const { events } = await startWorker({ db: database.db, agents: [agent] })
    const { sessionId } = await say(database.db, 'Count')
    await events.untilType('completed')
    await say(database.db, 'Go on', { sessionId })
    await events.untilType('completed', 2)
    const rows = await database.sql`
      select id, provider_call_id, result from ai_db.tool_calls
       where session_id = ${sessionId} order by created_at, step`
    expect(rows.map((row) => row.result)).toEqual([1, 2, 3].map((counted) => ({ counted })))
    expect(new Set(rows.map((row) => row.id)).size).toBe(3)
    expect(rows.every((row) => row.provider_call_id === 'call_0')).toBe(true)
    const told = adapter.calls.at(-1)!.messages.filter((message) => message.role === 'tool')
    expect(told.map(({ content }) => content)).toEqual(
      [1, 2, 3].map((counted) => JSON.stringify({ counted })),
    )
  })
})

describe('a tool that another process runs', () => {
  test('is taken up by name, and its result goes to the model', async () => {
    const { adapter, agent } = scripted(
      [{ toolCalls: [{ name: 'far', args: { n: 2 } }] }, { text: 'Done.' }],
      { tools: [described('far')], parkAfterMs: 10_000 },
    )
    const { events } = await startWorker({ db: database.db, agents: [agent] })
    await startExecutor({
      db: database.connect(),
      tools: [tool('far', ({ n }: { n: number }) => n * 21)],
    })
    const { generationId } = await say(database.db, 'Far')
    await events.untilType('completed')
    expect(await toolCallRows(database.sql, generationId)).toMatchObject([
      { status: 'completed', result: 42, attempt: 1 },
    ])
    expect(adapter.calls[1]!.messages.at(-1)).toMatchObject({ role: 'tool', content: '42' })
    expect(events.of('put-down'), 'it came before the slot was given back').toEqual([])
  })

  test('whose executor is killed mid-run is run by another, as attempt 2 of the same call', async () => {
    await using first = await spawnWorkerProcess()
    await using second = await spawnWorkerProcess()
    await using asker = await spawnWorkerProcess()
    const common = { databaseUrl: database.url, options: { shutdownGraceMs: 0 } }
    const asking = await asker.serve({
      ...common,
      agents: [{ name: 'remote', script: 'remote-lookup', options: { parkAfterMs: 0 } }],
    })
    const doomed = await first.serve({
      ...common,
      tools: ['remote_lookup'],
      faults: [{ point: 'after-side-effect', action: 'hold' }],
    })
    const { generationId } = await say(database.db, 'Look far', { targetAgent: 'remote' })
    await doomed.reached('after-side-effect')
    const other = await second.serve({ ...common, tools: ['remote_lookup'] })
    await first.kill()
    expect(await untilSettled(database.db, generationId)).toMatchObject({ status: 'completed' })
    const calls = await toolCallRows(database.sql, generationId)
    expect(calls.map(({ status, attempt }) => [status, attempt])).toEqual([
      ['completed', 2],
      ['completed', 1],
    ])
    const effects = await database.sql`
      select attempt, pid from effects where tool_call_id = ${String(calls[0]!.id)} order by at`
    expect(effects).toMatchObject([
      { attempt: 1, pid: first.pid },
      { attempt: 2, pid: second.pid },
    ])
    await asking.stop()
    await other.stop()
  })

  test('gives its generation’s slot back while it is waited for, and the turn goes on when it settles', async () => {
    const { agent } = scripted(
      ({ messages }) => {
        const last = messages.at(-1)!
        if (last.role === 'tool') return { text: `It came: ${String(last.content)}` }
        if (last.content === 'Quick') return { text: 'Quick answer.' }
        return { toolCalls: [{ name: 'slow', args: {} }] }
      },
      { tools: [described('slow')], parkAfterMs: 0 },
    )
    const { worker, events } = await startWorker({ db: database.db, agents: [agent], slots: 1 })
    const waiting = await say(database.db, 'Slow')
    await events.untilType('put-down')
    await pollUntil('the slot being free', () => worker.running === 0)
    const row = await generationRow(database.sql, waiting.generationId)
    expect(row).toMatchObject({ status: 'waiting', wait_reason: 'tools' })
    const quick = await say(database.db, 'Quick')
    expect(await untilSettled(database.db, quick.generationId)).toMatchObject({
      content: 'Quick answer.',
    })
    const reader = startReader(database.db, waiting.generationId)
    await startExecutor({ db: database.db, tools: [tool('slow', () => 'late but there')] })
    expect(await reader.ended).toMatchObject({
      status: 'completed',
      text: 'It came: "late but there"',
    })
    const after = await generationRow(database.sql, waiting.generationId)
    expect(after).toMatchObject({ attempt: 2, status: 'completed' })
  })

  test('that nobody serves fails its call when its time is up, and the turn goes on', async () => {
    const { calls, told } = await turnWith(
      [{ name: 'nowhere', args: {} }],
      [described('nowhere')],
      {
        toolExpiresMs: 100,
        parkAfterMs: 100,
      },
    )
    expect(calls).toMatchObject([{ status: 'failed', error: expect.stringContaining('in time') }])
    expect(told).toEqual([failure('nobody executed it in time')])
  }, 40_000)
})
