/**
 * createToolExecutionEffect: the implementation invariants of the RFC that are its own, by their names, and what it
 * does when things go wrong; over local-only collections, and over Postgres through Electric ones.
 */
import { eq, not } from '@tanstack/db'
import { chat } from '@tanstack/ai'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import {
  createToolExecutionEffect,
  makeDurableTools,
  parallelToolCalls,
  type ToolExecutionEffectOptions,
} from '../../src/index.js'
import { deferred } from '../../src/internal/abort.js'
import { scriptedAdapter } from '../../src/testing.js'
import { pollUntil } from '../support/poll-until.js'
import {
  analysisTool,
  durableOptions,
  electricWorld,
  localWorld,
  next,
  pendingCall,
  searchTool,
  useSyncedDatabase,
  type CallRow,
  type ToolWorld,
} from './tool-world.js'

beforeAll(async () => {
  await useSyncedDatabase()
})

type Options = Partial<ToolExecutionEffectOptions<[typeof searchTool, typeof analysisTool], never>>

/** An effect with the RFC's callbacks. */
function execute(
  { toolCalls, generations }: ToolWorld,
  search: (args: { query: string }, context: { signal: AbortSignal }) => Promise<string[]>,
  options: Options = {},
) {
  const errors: Error[] = []
  const effect = createToolExecutionEffect({
    query: (q) => q.from({ tc: toolCalls }).where(({ tc }) => eq(tc.status, 'pending')),
    tools: [searchTool, analysisTool],
    implementations: {
      searchDatabase: async (args, context) => ({ results: await search(args, context) }),
      analyzeDocument: ({ document }) => ({ summary: document.slice(0, 3) }),
    },
    onExecuting: (row) =>
      toolCalls.update(row.id, (draft) => {
        draft.status = 'executing'
      }),
    onComplete: (row, result) =>
      toolCalls.update(row.id, (draft) => {
        draft.status = 'completed'
        draft.result = result
      }),
    onError: (row, error) =>
      toolCalls.update(row.id, (draft) => {
        draft.status = 'failed'
        draft.error = error.message
      }),
    generations,
    onEffectError: (error) => void errors.push(error),
    ...(options as object),
  })
  onTestFinished(() => effect.dispose())
  return { effect, errors }
}

const insert = (world: ToolWorld, row: CallRow) => world.toolCalls.insert(row).isPersisted.promise

const settled = (world: ToolWorld, id: string) =>
  pollUntil(`the end of ${id}`, () => {
    const row = world.toolCalls.get(id)
    return row?.$synced && ['completed', 'failed', 'cancelled'].includes(row.status) && { ...row }
  })

describe.each([
  ['local-only', localWorld],
  ['Postgres through Electric', electricWorld],
])('over %s', (_, makeWorld) => {
  test('invariant 1, no duplicate tool execution: a row is executed once, however often it enters', async () => {
    const world = await makeWorld()
    const generationId = await world.generation()
    const hold = deferred()
    const executions: string[] = []
    // The query the RFC asks for: with it, each optimistic touch is an exit and an enter.
    execute(
      world,
      async ({ query }) => {
        executions.push(query)
        await hold.promise
        return [query]
      },
      {
        query: (q: any) =>
          q
            .from({ tc: world.toolCalls })
            .where(({ tc }: any) => eq(tc.$synced, true))
            .where(({ tc }: any) => not(eq(tc.status, 'completed'))),
      } as unknown as Options,
    )
    const row = pendingCall(generationId, { args: { query: 'once' } })
    await insert(world, row)
    await pollUntil('the execution', () => executions.length === 1)
    for (let touch = 0; touch < 3; touch += 1) {
      const touched = world.toolCalls.update(row.id, (draft) => {
        draft.error = `touch ${touch}`
      })
      await touched.isPersisted.promise
    }
    hold.resolve()
    expect(await settled(world, row.id)).toMatchObject({ status: 'completed' })
    expect(executions).toEqual(['once'])
  })

  test('a call of chat() in one place is executed in another, and its result goes back', async () => {
    const world = await makeWorld()
    const generationId = await world.generation()
    execute(world, async ({ query }) => [query.toUpperCase()])
    const tools = makeDurableTools([searchTool, analysisTool], world.toolCalls, {
      ...durableOptions,
      generationId,
    })
    const [first, second] = [next('call'), next('call')]
    const adapter = scriptedAdapter({
      turns: [
        {
          toolCalls: [
            { id: first, name: 'searchDatabase', args: { query: 'rows' } },
            { id: second, name: 'analyzeDocument', args: { document: 'paper' } },
          ],
        },
        { text: 'done' },
      ],
    })
    const text = await chat({
      adapter,
      messages: [{ role: 'user', content: 'go' }],
      tools,
      middleware: [parallelToolCalls(tools)],
      stream: false,
    })
    expect(text).toBe('done')
    const told = adapter.calls[1]!.messages.filter(({ role }) => role === 'tool')
    expect(told.map(({ content }) => JSON.parse(content as string) as unknown)).toEqual([
      { results: ['ROWS'] },
      { summary: 'pap' },
    ])
  })

  test('invariant 3, cancellation propagation: disposing aborts what runs, waits for it, and leaves no row executing', async () => {
    const world = await makeWorld()
    const generationId = await world.generation()
    const began = deferred()
    const order: string[] = []
    const { effect } = execute(world, async (_args, { signal }) => {
      began.resolve()
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      order.push('aborted')
      throw signal.reason as Error
    })
    const row = pendingCall(generationId)
    await insert(world, row)
    await began.promise
    const disposing = effect.dispose()
    expect(effect.disposed).toBe(true)
    await disposing
    order.push('disposed')
    expect(order).toEqual(['aborted', 'disposed'])
    expect(world.toolCalls.get(row.id)).toMatchObject({
      status: 'cancelled',
      cancelReason: 'by-user',
    })
    const later = pendingCall(generationId)
    await insert(world, later)
    expect(world.toolCalls.get(later.id)).toMatchObject({ status: 'pending' })
  })

  test('a tool that ignores its signal cannot hold up disposing', async () => {
    const world = await makeWorld()
    const generationId = await world.generation()
    const began = deferred()
    const { effect } = execute(world, async () => {
      began.resolve()
      return new Promise<never>(() => undefined)
    })
    await insert(world, pendingCall(generationId))
    await began.promise
    await effect.dispose()
  })

  test('failures end as failed rows: a throw, bad arguments, a bad result, an unknown tool, too long', async () => {
    const world = await makeWorld()
    const generationId = await world.generation()
    execute(
      world,
      async ({ query }) => {
        if (query === 'throw') throw new Error('no such table')
        if (query === 'hang') return new Promise<never>(() => undefined)
        return [7 as unknown as string]
      },
      { timeout: 300 },
    )
    const told = async (changes: Partial<CallRow>) => {
      const row = pendingCall(generationId, changes)
      await insert(world, row)
      const { status, error } = await settled(world, row.id)
      expect(status).toBe('failed')
      return error
    }
    expect(await told({ args: { query: 'throw' } })).toBe('no such table')
    expect(await told({ args: { query: 7 } })).toMatch(/arguments of searchDatabase .* query: /)
    expect(await told({ args: { query: 'number' } })).toMatch(
      /result of searchDatabase .* results.0/,
    )
    expect(await told({ name: 'searchWeb' })).toBe('Unknown tool: searchWeb')
    expect(await told({ args: { query: 'hang' } })).toBe('searchDatabase took longer than 300 ms')
  })

  test('invariant 4, late-result policy: after its generation was cancelled a result is discarded, the call cancelled', async () => {
    const world = await makeWorld()
    const generationId = await world.generation()
    const began = deferred<AbortSignal>()
    execute(world, async (_args, { signal }) => {
      began.resolve(signal)
      return new Promise<never>(() => undefined)
    })
    const row = pendingCall(generationId)
    await insert(world, row)
    const signal = await began.promise
    await world.cancelGeneration(generationId)
    expect(await settled(world, row.id)).toMatchObject({
      status: 'cancelled',
      cancelReason: 'by-user',
      result: null,
    })
    expect(signal.aborted).toBe(true)
  })
})

describe('over local-only', () => {
  test('invariant 4, late-result policy: stored, a late result says so, and wakes nothing', async () => {
    const world = await localWorld()
    const generationId = await world.generation()
    const result = deferred<string[]>()
    const began = deferred()
    const told: { late: boolean }[] = []
    execute(
      world,
      async () => {
        began.resolve()
        return result.promise
      },
      {
        lateResult: 'store',
        onComplete: (row: CallRow, value: unknown, info: { late: boolean }) => {
          told.push(info)
          return world.toolCalls.update(row.id, (draft) => {
            draft.status = 'completed'
            draft.result = { value, late: info.late }
          })
        },
      } as unknown as Options,
    )
    const row = pendingCall(generationId)
    await insert(world, row)
    await began.promise
    await world.cancelGeneration(generationId)
    result.resolve(['late'])
    await settled(world, row.id)
    expect(world.toolCalls.get(row.id)!.result).toEqual({
      value: { results: ['late'] },
      late: true,
    })
    expect(told).toEqual([{ attempt: 1, late: true }])
    expect(world.generations.get(generationId)!.status).toBe('cancelled')
  })

  test('a pending call of a cancelled generation is cancelled, not executed', async () => {
    const world = await localWorld()
    const generationId = await world.generation()
    await world.cancelGeneration(generationId)
    let executed = 0
    execute(world, async () => [`${(executed += 1)}`])
    const row = pendingCall(generationId)
    await insert(world, row)
    expect(await settled(world, row.id)).toMatchObject({ status: 'cancelled' })
    expect(executed).toBe(0)
  })

  test('concurrency bounds what is in flight, and every row has its turn', async () => {
    const world = await localWorld()
    const generationId = await world.generation()
    let running = 0
    let most = 0
    execute(
      world,
      async () => {
        most = Math.max(most, (running += 1))
        await new Promise((resolve) => setImmediate(resolve))
        running -= 1
        return []
      },
      { concurrency: 3 },
    )
    const rows = Array.from({ length: 50 }, () => pendingCall(generationId))
    await world.toolCalls.insert(rows).isPersisted.promise
    for (const { id } of rows) await settled(world, id)
    expect(most).toBe(3)
  })

  test('rows there are already when the effect is made are executed, and leave its query', async () => {
    const world = await localWorld()
    const row = pendingCall(await world.generation())
    await insert(world, row)
    execute(world, async () => [])
    expect(await settled(world, row.id)).toMatchObject({ status: 'completed' })
  })

  test('a claim decides: refused, a row is asked for again at its next change; its failure is tried again', async () => {
    const world = await localWorld()
    const row = pendingCall(await world.generation())
    const answers = ['unreachable', false, { attempt: 3 }] as const
    const asked: unknown[] = []
    const attempts: number[] = []
    const { errors } = execute(world, async () => [], {
      claim: async () => {
        const answer = answers[asked.length]!
        asked.push(answer)
        if (answer === 'unreachable') throw new Error('away')
        return answer
      },
      onComplete: (_row: CallRow, _result: unknown, info: { attempt: number }) =>
        void attempts.push(info.attempt),
    } as unknown as Options)
    await insert(world, row)
    await pollUntil('the refusal', () => asked.length === 2)
    const touched = world.toolCalls.update(row.id, (draft) => {
      draft.error = 'touched'
    })
    await touched.isPersisted.promise
    await pollUntil('the execution', () => attempts.length === 1)
    expect(attempts).toEqual([3])
    expect(errors.map(({ message }) => message)).toEqual(['away'])
  })

  test('names what a row or an option lacks', async () => {
    const world = await localWorld()
    const { errors } = execute(world, async () => [], {
      query: (q: any) => q.from({ tc: world.toolCalls }).select(({ tc }: any) => ({ id: tc.id })),
    } as unknown as Options)
    await insert(world, pendingCall(await world.generation()))
    await pollUntil('the complaint', () => errors.length === 1)
    expect(errors[0]).toMatchObject({ code: 'INVALID_INPUT', field: 'status' })
    const refused = (options: object) => () => execute(world, async () => [], options as Options)
    expect(refused({ concurency: 1 })).toThrow(/did you mean 'concurrency'/)
    expect(refused({ lateResult: 'keep' })).toThrow(/lateResult must be one of discard, store/)
    expect(refused({ implementations: { searchDatabase: () => null } })).toThrow(
      /implementations.analyzeDocument/,
    )
    expect(refused({ tools: [searchTool, searchTool] })).toThrow(/'searchDatabase' twice/)
  })
})
