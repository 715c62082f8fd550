/**
 * The same suite over every backend of the RFC's matrix, with tables of a host's own: what one device asks for, another
 * one does. What each backend promises and wants is told in docs/backends.md, which names these tests.
 */
import { chat, type ModelMessage, type StreamChunk } from '@tanstack/ai'
import { eq } from '@tanstack/db'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import {
  chunksToText,
  createGenerationEffect,
  createToolExecutionEffect,
  durableChat,
  isContentChunk,
  makeAsyncTool,
  makeDurableTool,
  streamToCollection,
  type GenerationContext,
} from '../../src/index.js'
import type { ClaimToolCall } from '../../src/contract/tool-claims.js'
import { deferred } from '../../src/internal/abort.js'
import { scriptedAdapter, type ScriptedTurn } from '../../src/testing.js'
import { pollUntil } from '../support/poll-until.js'
import { createSyncedDatabase, type SyncedDatabase } from '../support/synced-database.js'
import { electricBackend } from './backend-electric.js'
import { localBackend } from './backend-local.js'
import { queryBackend } from './backend-query.js'
import { streamDbBackend } from './backend-stream-db.js'
import {
  callRow,
  chunkRow,
  finalRow,
  imageTool,
  next,
  REFUSED,
  requestRow,
  searchTool,
  type CallRow,
  type Device,
  type RequestRow,
  type Tables,
} from './backend-world.js'

let database: SyncedDatabase
beforeAll(async () => {
  database = await createSyncedDatabase()
})

const ENDED = ['completed', 'failed', 'cancelled']

/** The row, confirmed, as this device sees it. */
function seen<Name extends keyof Tables>(
  { collections }: Device,
  table: Name,
  id: string,
  fits: (row: Tables[Name]) => boolean = () => true,
): Promise<Tables[Name]> {
  return pollUntil(`${table} ${id}`, () => {
    const row = collections[table].get(id)
    return row?.$synced && fits(row) && (row as Tables[Name])
  })
}

const ended = (row: { status: string }) => ENDED.includes(row.status)

/** Asks through a durable tool: `timeout`, and what the backend needs to write. */
const durable = (device: Device, timeout?: number) =>
  makeDurableTool(searchTool, device.collections.calls, {
    transform: (call, requestId) => callRow({ ...call, requestId: requestId ?? 'request' }),
    isComplete: (row: CallRow) => row.status === 'completed' || row.status === 'failed',
    getResult: (row: CallRow) => {
      if (row.status === 'failed') throw new Error(row.error ?? 'failed')
      return row.result as never
    },
    ...(timeout !== undefined && { timeout }),
    ...device.insertOption('calls'),
    ...device.cancelOption(),
  })

interface Executing {
  search?: (query: string) => Promise<string[]> | string[]
  claim?: ClaimToolCall<{ id: string }>
}

/** Executes calls on a device, with the RFC's callbacks. */
function execute(device: Device, { search = (query) => [query], claim }: Executing = {}) {
  const { calls } = device.collections
  const errors: Error[] = []
  const effect = createToolExecutionEffect({
    query: (q) => q.from({ call: calls }).where(({ call }) => eq(call.status, 'pending')),
    tools: [searchTool, imageTool],
    implementations: {
      searchDatabase: async ({ query }) => ({ results: await search(query) }),
      generateImage: ({ prompt }) => ({ jobId: prompt, status: 'queued' as const }),
    },
    ...(claim ? { claim } : {}),
    onExecuting: (row) => !claim && device.update('calls', row.id, { status: 'executing' }),
    onComplete: (row, result) => device.update('calls', row.id, { status: 'completed', result }),
    onError: (row, error) =>
      device.update('calls', row.id, { status: 'failed', error: error.message }),
    onCancelled: (row) => device.update('calls', row.id, { status: 'cancelled' }),
    onEffectError: (error) => void errors.push(error),
  })
  onTestFinished(() => effect.dispose())
  return { effect, errors }
}

interface Generating {
  generate: (row: RequestRow, context: GenerationContext) => Promise<string> | string
}

/** Generates on a device; ended rows say how. */
function generating(device: Device, { generate }: Generating) {
  const { requests } = device.collections
  const effect = createGenerationEffect({
    query: (q) =>
      q.from({ request: requests }).where(({ request }) => eq(request.status, 'pending')),
    generate: (row, context) => generate(row, context),
    onComplete: (row, response) =>
      device.update('requests', row.id, { status: 'completed', response }),
    onError: (row, error) =>
      device.update('requests', row.id, { status: 'failed', response: error.message }),
    onCancelled: (row) => device.update('requests', row.id, { status: 'cancelled' }),
  })
  onTestFinished(() => effect.dispose())
}

function ask(turns: ScriptedTurn[], tools: readonly object[]) {
  const adapter = scriptedAdapter({ turns })
  const messages: ModelMessage[] = [{ role: 'user', content: 'go' }]
  const text = chat({ adapter, messages, tools, stream: false } as never) as unknown
  return { adapter, text: text as Promise<string> }
}

const told = (messages: readonly ModelMessage[]) =>
  messages
    .filter(({ role }) => role === 'tool')
    .map(({ content }) => JSON.parse(content as string) as unknown)

const callOf = (id: string, name = 'searchDatabase', args: object = { query: 'rows' }) => ({
  ...{ id, name, args },
})

async function* words(...deltas: string[]): AsyncGenerator<StreamChunk> {
  for (const delta of deltas)
    yield { type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta } as StreamChunk
}

const chunksOf = ({ collections }: Device, generationId: string) =>
  [...collections.chunks.values()].filter((row) => row.generationId === generationId)

describe.each([
  ['local-only', localBackend],
  ['Electric', () => electricBackend(database)],
  ['StreamDB', streamDbBackend],
  ['TanStack Query', queryBackend],
])('%s', (_, makeBackend) => {
  const devices = async () => {
    const backend = await makeBackend()
    const [client, server] = [await backend.open(), await backend.open()]
    return { backend, client, server }
  }

  test('a durable tool’s call is a row that another device executes, and its result is the tool’s', async () => {
    const { client, server } = await devices()
    const { errors } = execute(server, { search: (query) => [query.toUpperCase()] })
    const id = next('call')
    const { adapter, text } = ask(
      [{ toolCalls: [callOf(id)] }, { text: 'done' }],
      [durable(client)],
    )
    expect(await text).toBe('done')
    expect(told(adapter.calls[1]!.messages)).toEqual([{ results: ['ROWS'] }])
    expect(await seen(server, 'calls', id, ended)).toMatchObject({ status: 'completed' })
    expect(errors).toEqual([])
  })

  test('what the implementation throws is the tool’s error on the device that asked', async () => {
    const { client, server } = await devices()
    execute(server, { search: () => Promise.reject(new Error('no such table')) })
    const { adapter, text } = ask(
      [{ toolCalls: [callOf(next('call'))] }, { text: 'sorry' }],
      [durable(client)],
    )
    expect(await text).toBe('sorry')
    expect(told(adapter.calls[1]!.messages)).toEqual([{ error: 'no such table' }])
  })

  test('a call that nobody executes is a TIMEOUT, and every device sees its row cancelled', async () => {
    const { client, server } = await devices()
    const toolCallId = next('call')
    const run = durable(client, 400).execute({ query: 'q' }, { toolCallId })
    await expect(run).rejects.toMatchObject({ code: 'TIMEOUT' })
    expect(await seen(server, 'calls', toolCallId, ended)).toMatchObject({ status: 'cancelled' })
  })

  test('an asynchronous tool answers at once, and its row ends later', async () => {
    const { client, server } = await devices()
    const tool = makeAsyncTool(imageTool, client.collections.calls, {
      transform: (call) => callRow(call),
      getImmediateResult: (row: CallRow) => ({ jobId: row.id, status: 'queued' }),
      ...client.insertOption('calls'),
    })
    const id = next('call')
    const turns = [
      { toolCalls: [callOf(id, 'generateImage', { prompt: 'cat' })] },
      { text: 'soon' },
    ]
    const { adapter, text } = ask(turns, [tool])
    expect(await text).toBe('soon')
    expect(told(adapter.calls[1]!.messages)).toEqual([{ jobId: id, status: 'queued' }])
    execute(server)
    expect(await seen(client, 'calls', id, ended)).toMatchObject({ status: 'completed' })
  })

  test('a stream’s chunks are the same text on another device, and end with the final one', async () => {
    const { client, server } = await devices()
    const generationId = next('generation')
    const result = await streamToCollection(words('Once ', 'upon ', 'a ', 'time.'), {
      collection: server.collections.chunks,
      generationId,
      transform: chunkRow,
      final: finalRow,
      ...server.insertOption('chunks'),
    })
    expect(result).toEqual({ content: 'Once upon a time.', rows: 5 })
    await pollUntil('the final chunk', () => chunksOf(client, generationId).some((c) => c.isFinal))
    const chunks = await pollUntil('all chunks', () => {
      const all = chunksOf(client, generationId)
      return all.length === 5 && all
    })
    expect(chunksToText(chunks)).toBe('Once upon a time.')
  })

  test('a generation is run once for its row, with its tools elsewhere and its chunks as rows', async () => {
    const { client, server } = await devices()
    execute(client, { search: (query) => [`${query}!`] })
    const runs: string[] = []
    generating(server, {
      generate: async (request, { signal }) => {
        runs.push(request.id)
        await server.update('requests', request.id, { status: 'generating' })
        // Touched, it leaves the query and comes back: still one run.
        await server.update('requests', request.id, { status: 'pending' })
        await server.update('requests', request.id, { status: 'generating' })
        const abortController = new AbortController()
        signal.addEventListener('abort', () => abortController.abort(signal.reason))
        const turns = [{ toolCalls: [callOf(next('call'))] }, { text: `${request.prompt} So.` }]
        const { content } = await durableChat({
          adapter: scriptedAdapter({ turns }),
          messages: [{ role: 'user', content: request.prompt }],
          tools: [durable(server)],
          chunks: {
            collection: server.collections.chunks,
            generationId: request.id,
            transform: chunkRow,
            filter: isContentChunk,
            final: finalRow,
            ...server.insertOption('chunks'),
          },
          abortController,
        })
        return content
      },
    })
    const ids = [requestRow(), requestRow()].map((row) => {
      void client.insert('requests', row)
      return row.id
    })
    for (const id of ids) {
      const row = await seen(client, 'requests', id, ended)
      expect(row).toMatchObject({ status: 'completed', response: 'Why? So.' })
      await pollUntil('its last chunk', () => chunksOf(client, id).some((chunk) => chunk.isFinal))
      expect(chunksToText(chunksOf(client, id))).toBe('Why? So.')
    }
    expect(runs.toSorted()).toEqual(ids.toSorted())
  })

  test('cancelled on another device, a generation is aborted and writes no result', async () => {
    const { client, server } = await devices()
    const aborted = deferred()
    generating(server, {
      generate: async ({ id }, { signal }) => {
        signal.addEventListener('abort', () => aborted.resolve())
        await server.update('requests', id, { status: 'generating' })
        await aborted.promise
        return 'too late'
      },
    })
    const { id } = requestRow()
    await client.insert('requests', requestRow({ id }))
    await seen(client, 'requests', id, ({ status }) => status === 'generating')
    await client.update('requests', id, { status: 'cancelled' })
    await aborted.promise
    expect(await seen(server, 'requests', id, ended)).toMatchObject({
      status: 'cancelled',
      response: null,
    })
  })

  test('with a claim effects on two devices execute each call once', async () => {
    const { backend, client, server } = await devices()
    const executed: string[] = []
    const search = (query: string) => {
      executed.push(query)
      return [query]
    }
    for (const device of [client, server]) execute(device, { search, claim: backend.claim })
    const ids = Array.from({ length: 12 }, () => next('call'))
    await Promise.all(ids.map((id) => client.insert('calls', callRow({ id, args: { query: id } }))))
    for (const id of ids) await seen(client, 'calls', id, ended)
    expect(executed.toSorted()).toEqual(ids.toSorted())
  })

  test('a row that the backend has not confirmed is not executed, where the backend can tell', async () => {
    const { backend, client } = await devices()
    const executed: string[] = []
    execute(client, {
      search: (query) => {
        executed.push(query)
        return []
      },
    })
    const release = backend.hold()
    const row = callRow({ args: { query: 'held' } })
    const inserted = client.insert('calls', row)
    expect(client.collections.calls.get(row.id)).toMatchObject({
      $synced: !backend.tellsUnconfirmed,
    })
    if (backend.tellsUnconfirmed) {
      // A row that needs no confirmation here has its turn; the held one does not.
      await new Promise((resolve) => setImmediate(resolve))
      expect(executed).toEqual([])
    }
    release()
    await inserted
    await seen(client, 'calls', row.id, ended)
    expect(executed).toEqual(['held'])
  })

  test('a write that the backend refuses fails the call at once, and its row is gone', async () => {
    const { client } = await devices()
    const run = durable(client).execute({ query: 'q' }, { toolCallId: REFUSED })
    await expect(run).rejects.toThrow()
    expect(client.collections.calls.has(REFUSED)).toBe(false)
  })
})
