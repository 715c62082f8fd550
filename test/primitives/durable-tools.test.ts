/**
 * makeDurableTool(s) and makeAsyncTool inside of a real chat(), with the rows settled by somebody else: over
 * local-only collections, and over Postgres through Electric ones.
 */
import { chat, toolDefinition, type ChatMiddleware, type ModelMessage } from '@tanstack/ai'
import { beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  makeAsyncTool,
  makeDurableTool,
  makeDurableTools,
  makeJobStatusTool,
  parallelToolCalls,
  waitForToolResult,
  withJobResults,
  type AnyTool,
} from '../../src/index.js'
import { scriptedAdapter, type ScriptedTurn } from '../../src/testing.js'
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

const callOf = (id: string, query = 'rows') => ({ id, name: 'searchDatabase', args: { query } })
const ask = [{ role: 'user' as const, content: 'go' }]

/** What the model was told of its calls, by id. */
function toolMessages(messages: readonly ModelMessage[]): Record<string, unknown> {
  return Object.fromEntries(
    messages
      .filter(({ role }) => role === 'tool')
      .map(({ toolCallId, content }) => [toolCallId!, JSON.parse(content as string) as unknown]),
  )
}

/** Moves a row to its end in legal steps, as an executor does. */
async function settle(world: ToolWorld, id: string, changes: Partial<CallRow>): Promise<void> {
  for (const step of [{ status: 'executing' as const }, changes]) {
    const moved = world.toolCalls.update(id, (draft) => {
      Object.assign(draft, step)
    })
    await moved.isPersisted.promise
  }
}

/** Confirmed: before that, whoever executes calls cannot know of it. */
const rowOf = (world: ToolWorld, id: string) =>
  pollUntil(`the row ${id}`, () => {
    const row = world.toolCalls.get(id)
    return row?.$synced && row
  })

interface RunOptions {
  tools: readonly AnyTool[]
  middleware?: ChatMiddleware[]
  context?: { generationId: string }
  abortController?: AbortController
}

describe.each([
  ['local-only', localWorld],
  ['Postgres through Electric', electricWorld],
])('over %s', (_, makeWorld) => {
  const run = (turns: ScriptedTurn[], options: RunOptions) => {
    const adapter = scriptedAdapter({ turns })
    const text = chat({ ...options, adapter, messages: ask, stream: false } as never) as unknown
    return { adapter, text: text as Promise<string> }
  }

  test('a call of chat() is a pending row under the provider’s id, and its settled result is the tool’s', async () => {
    const world = await makeWorld()
    const generationId = await world.generation()
    const tool = makeDurableTool(searchTool, world.toolCalls, { ...durableOptions, generationId })
    const id = next('call')
    const { adapter, text } = run([{ toolCalls: [callOf(id)] }, { text: 'done' }], {
      tools: [tool],
    })
    const row = await rowOf(world, id)
    expect(row).toMatchObject({ ...callOf(id), generationId, status: 'pending' })
    await settle(world, id, { status: 'completed', result: { results: ['a', 'b'] } })
    expect(await text).toBe('done')
    expect(toolMessages(adapter.calls[1]!.messages)).toEqual({ [id]: { results: ['a', 'b'] } })
  })

  test('a failed row is the tool’s error, and the loop goes on', async () => {
    const world = await makeWorld()
    const generationId = await world.generation()
    const tools = makeDurableTools([searchTool, analysisTool], world.toolCalls, {
      ...durableOptions,
      getResult: (row) => (row.status === 'failed' ? Promise.reject(row.error) : row.result),
    })
    const id = next('call')
    const { adapter, text } = run([{ toolCalls: [callOf(id)] }, { text: 'sorry' }], {
      tools,
      context: { generationId },
    })
    await rowOf(world, id)
    await settle(world, id, { status: 'failed', error: 'no such table' })
    expect(await text).toBe('sorry')
    expect(toolMessages(adapter.calls[1]!.messages)).toEqual({ [id]: { error: 'no such table' } })
  })

  test('the calls of a turn wait side by side: all rows are there before the first is settled', async () => {
    const world = await makeWorld()
    const generationId = await world.generation()
    const tools = makeDurableTools([searchTool, analysisTool], world.toolCalls, {
      ...durableOptions,
      generationId,
    })
    const ids = [next('call'), next('call'), next('call')]
    const { adapter, text } = run(
      [{ toolCalls: ids.map((id) => callOf(id, id)) }, { text: 'done' }],
      { tools, middleware: [parallelToolCalls(tools)] },
    )
    for (const id of ids) await rowOf(world, id)
    // The last one first: none of them waits for another.
    for (const id of ids.toReversed())
      await settle(world, id, { status: 'completed', result: { results: [id] } })
    expect(await text).toBe('done')
    expect(toolMessages(adapter.calls[1]!.messages)).toEqual(
      Object.fromEntries(ids.map((id) => [id, { results: [id] }])),
    )
    expect(world.toolCalls.size).toBe(3)
  })

  test('an abort ends chat() at once and cancels every row of the turn, the begun ones included', async () => {
    const world = await makeWorld()
    const generationId = await world.generation()
    const tools = makeDurableTools([searchTool], world.toolCalls, {
      ...durableOptions,
      generationId,
    })
    const ids = [next('call'), next('call')]
    const abortController = new AbortController()
    const { text } = run([{ toolCalls: ids.map((id) => callOf(id, id)) }, { text: 'never' }], {
      tools,
      middleware: [parallelToolCalls(tools)],
      abortController,
    })
    for (const id of ids) await rowOf(world, id)
    abortController.abort()
    await text.catch(() => undefined)
    for (const id of ids) {
      const cancelled = await pollUntil('the cancelled row', () => {
        const row = world.toolCalls.get(id)
        return row?.status === 'cancelled' && row
      })
      expect(cancelled.cancelReason).toBe('by-user')
    }
  })

  test('a wait that takes too long is a TIMEOUT, and its row is cancelled by-timeout, or kept', async () => {
    const world = await makeWorld()
    const generationId = await world.generation()
    const options = { ...durableOptions, generationId, timeout: 50 }
    const id = next('call')
    const tool = makeDurableTool(searchTool, world.toolCalls, options)
    await expect(tool.execute({ query: 'q' }, { toolCallId: id })).rejects.toMatchObject({
      code: 'TIMEOUT',
    })
    expect(world.toolCalls.get(id)).toMatchObject({
      status: 'cancelled',
      cancelReason: 'by-timeout',
    })
    const keeping = makeDurableTool(searchTool, world.toolCalls, { ...options, onTimeout: 'keep' })
    const kept = next('call')
    await expect(keeping.execute({ query: 'q' }, { toolCallId: kept })).rejects.toThrow(/50 ms/)
    expect(world.toolCalls.get(kept)).toMatchObject({ status: 'pending' })
  })

  test('a run that is resumed finds its row and does not ask again', async () => {
    const world = await makeWorld()
    const generationId = await world.generation()
    const tool = makeDurableTool(searchTool, world.toolCalls, {
      ...durableOptions,
      generationId,
      onAbort: 'keep',
    })
    const id = next('call')
    const first = new AbortController()
    const cut = tool.execute({ query: 'q' }, { toolCallId: id, abortSignal: first.signal })
    await rowOf(world, id)
    first.abort(new Error('the process ends'))
    await expect(cut).rejects.toThrow('the process ends')
    await settle(world, id, { status: 'completed', result: { results: ['kept'] } })
    expect(await tool.execute({ query: 'q' }, { toolCallId: id })).toEqual({ results: ['kept'] })
    await expect(tool.execute({ query: 'other' }, { toolCallId: id })).rejects.toMatchObject({
      code: 'DUPLICATE_ID',
      field: 'args',
    })
  })

  test('a row cancelled by somebody else ends the wait, although isComplete does not know that word', async () => {
    const world = await makeWorld()
    const generationId = await world.generation()
    const tool = makeDurableTool(searchTool, world.toolCalls, { ...durableOptions, generationId })
    const id = next('call')
    const waiting = tool.execute({ query: 'q' }, { toolCallId: id })
    const failed = expect(waiting).rejects.toMatchObject({ code: 'CANCELLED' })
    await rowOf(world, id)
    const change = world.toolCalls.update(id, (draft) => {
      draft.status = 'cancelled'
      draft.cancelReason = 'by-user'
    })
    await change.isPersisted.promise
    await failed
  })

  test('an asynchronous tool answers at once; the model hears of the end by asking, or in the place of the first answer', async () => {
    const world = await makeWorld()
    const generationId = await world.generation()
    const imageTool = toolDefinition({
      name: 'generateImage',
      description: 'Generate an image',
      inputSchema: z.object({ prompt: z.string() }),
      outputSchema: z.object({ jobId: z.string(), status: z.literal('queued') }),
    })
    const tool = makeAsyncTool(imageTool, world.toolCalls, {
      transform: (call) => pendingCall(generationId, call),
      getImmediateResult: (row) => ({ jobId: row.id, status: 'queued' }),
    })
    const status = makeJobStatusTool(world.toolCalls, {
      getStatus: (row) => ({ status: row.status, result: row.result }),
    })
    const id = next('call')
    const { adapter, text } = run(
      [
        { toolCalls: [{ id, name: 'generateImage', args: { prompt: 'a cat' } }] },
        { toolCalls: [{ id: 'ask', name: 'checkAsyncJobStatus', args: { jobId: id } }] },
        { text: 'soon' },
      ],
      { tools: [tool, status] },
    )
    expect(await text).toBe('soon')
    const told = adapter.calls[2]!.messages
    expect(toolMessages(told)).toEqual({
      [id]: { jobId: id, status: 'queued' },
      ask: { status: 'pending', result: null },
    })
    expect(toolMessages(withJobResults(told, world.toolCalls, durableOptions))).toMatchObject({
      [id]: { status: 'queued' },
    })
    await settle(world, id, { status: 'completed', result: { url: 'cat.png' } })
    expect(toolMessages(withJobResults(told, world.toolCalls, durableOptions))).toMatchObject({
      [id]: { url: 'cat.png' },
      ask: { status: 'pending' },
    })
  })
})

describe('waiting for a row', () => {
  test('lasts until the row arrives, and ends when it was deleted', async () => {
    const world = await localWorld()
    const row = pendingCall('g')
    const wait = () =>
      waitForToolResult(
        world.toolCalls,
        row.id,
        (found) => found.status === 'completed',
        (found) => found.result,
      )
    const waiting = wait()
    world.toolCalls.insert(row)
    await settle(world, row.id, { status: 'completed', result: 42 })
    expect(await waiting).toBe(42)
  })

  test('leaves nothing subscribed, whichever way it ends', async () => {
    const world = await localWorld()
    const never = () => false
    const signal = AbortSignal.timeout(30)
    await Promise.allSettled([
      waitForToolResult(world.toolCalls, 'a', never, never, { timeout: 20 }),
      waitForToolResult(world.toolCalls, 'b', never, never, { signal }),
      waitForToolResult(world.toolCalls, 'c', never, never, { signal: AbortSignal.abort() }),
    ])
    expect(world.toolCalls.subscriberCount).toBe(0)
  })
})

test('an insert that the backend refuses fails the call at once', async () => {
  const world = await electricWorld()
  const tool = makeDurableTool(searchTool, world.toolCalls, {
    ...durableOptions,
    generationId: 'no such generation',
  })
  await expect(tool.execute({ query: 'q' }, { toolCallId: next('call') })).rejects.toThrow(
    /foreign key/,
  )
  expect(world.toolCalls.size).toBe(0)
})
