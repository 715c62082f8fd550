/** createGenerationEffect and durableChat over local collections: once, cancelled, disposed, claimed, in chat(). */
import { createCollection, eq, localOnlyCollectionOptions } from '@tanstack/db'
import { onTestFinished, expect, expectTypeOf, test } from 'vitest'
import {
  createGenerationEffect,
  createToolExecutionEffect,
  durableChat,
  type ClaimGeneration,
  type GenerationContext,
} from '../../src/index.js'
import { chunksToText } from '../../src/generation/materialize-chunks.js'
import { isContentChunk, mapChunkType } from '../../src/generation/chunk-type.js'
import { deferred } from '../../src/internal/abort.js'
import { scriptedAdapter } from '../../src/testing.js'
import { pollUntil } from '../support/poll-until.js'
import { durableOptions, localWorld, next, searchTool } from './tool-world.js'

interface Request {
  id: string
  prompt: string
  status: 'pending' | 'generating' | 'completed' | 'failed' | 'cancelled'
  response?: string
}

function requestsCollection() {
  return createCollection(
    localOnlyCollectionOptions<Request, string>({ id: next('requests'), getKey: (row) => row.id }),
  )
}

type Requests = ReturnType<typeof requestsCollection>

interface Options {
  generate?: (row: Request, context: GenerationContext) => string | Promise<string>
  onCancelled?: (row: Request, reason: string) => unknown
  onError?: (row: Request, error: Error) => unknown
  claim?: ClaimGeneration<{ id: string }>
  concurrency?: number
  timeout?: number
}

/** The RFC's example: the row says how far it is. */
function effectOver(requests: Requests, options: Options) {
  const effect = createGenerationEffect({
    query: (q) => q.from({ r: requests }).where(({ r }) => eq(r.status, 'pending')),
    generate: () => 'answer',
    onComplete: (row, response) =>
      requests.update(
        row.id,
        (draft) => void Object.assign(draft, { status: 'completed', response }),
      ),
    onError: (row, error) =>
      requests.update(
        row.id,
        (draft) => void Object.assign(draft, { status: 'failed', response: error.message }),
      ),
    onEffectError: (error) => errors.push(error),
    ...(options as object),
  })
  const errors: Error[] = []
  onTestFinished(() => effect.dispose())
  return { effect, errors }
}

const ask = (requests: Requests, prompt = 'Why?') => {
  const id = next('request')
  requests.insert({ id, prompt, status: 'pending' })
  return id
}

const settled = (requests: Requests, id: string) =>
  pollUntil(`request ${id} settled`, () => {
    const row = requests.get(id)
    return row && !['pending', 'generating'].includes(row.status) ? row : undefined
  })

test('each row is run once, though it enters again; its result is written', async () => {
  const requests = requestsCollection()
  const runs: string[] = []
  effectOver(requests, {
    generate: async (row: Request) => {
      runs.push(row.id)
      // The row leaves the query, and touching it lets it enter and leave again.
      requests.update(row.id, (draft) => void (draft.status = 'generating'))
      requests.update(row.id, (draft) => void (draft.status = 'pending'))
      await Promise.resolve()
      requests.update(row.id, (draft) => void (draft.status = 'generating'))
      return `${row.prompt} Because.`
    },
  })
  const ids = [ask(requests), ask(requests), ask(requests)]
  for (const id of ids) {
    expect(await settled(requests, id)).toMatchObject({
      status: 'completed',
      response: 'Why? Because.',
    })
  }
  expect(runs.toSorted()).toEqual(ids.toSorted())
})

test('what generate throws is told to onError, and the effect goes on', async () => {
  const requests = requestsCollection()
  effectOver(requests, {
    generate: (row: Request) => {
      if (row.prompt === 'throw') throw new Error('no model')
      return 'fine'
    },
  })
  const failed = ask(requests, 'throw')
  const fine = ask(requests)
  expect(await settled(requests, failed)).toMatchObject({ status: 'failed', response: 'no model' })
  expect(await settled(requests, fine)).toMatchObject({ status: 'completed' })
})

test('a run that takes too long fails with TIMEOUT, even if it ignores its signal', async () => {
  const requests = requestsCollection()
  const errors: Error[] = []
  effectOver(requests, {
    timeout: 20,
    generate: () => new Promise<string>(() => {}),
    onError: (row: Request, error: Error) => {
      errors.push(error)
      return requests.update(row.id, (draft) => void (draft.status = 'failed'))
    },
  })
  await settled(requests, ask(requests))
  expect(errors).toMatchObject([{ code: 'TIMEOUT' }])
})

test.for(['cancelled', 'deleted'] as const)(
  'a row that is %s stops its run: the signal aborts and nothing is written',
  async (how) => {
    const requests = requestsCollection()
    const begun = deferred<AbortSignal>()
    const told: unknown[] = []
    effectOver(requests, {
      generate: (row: Request, { signal }) => {
        requests.update(row.id, (draft) => void (draft.status = 'generating'))
        begun.resolve(signal)
        return new Promise<string>(() => {})
      },
      onCancelled: (row: Request, reason) => void told.push([row.id, reason]),
    })
    const id = ask(requests)
    const signal = await begun.promise
    if (how === 'deleted') requests.delete(id)
    else requests.update(id, (draft) => void (draft.status = 'cancelled'))
    await pollUntil('onCancelled', () => told.length > 0)
    expect(signal.aborted).toBe(true)
    expect(told).toEqual([[id, 'by-user']])
    expect(requests.get(id)?.response).toBeUndefined()
  },
)

test('a row that is gone for a moment, as in a refetch, does not stop its run', async () => {
  const requests = requestsCollection()
  const begun = deferred()
  const gone = deferred()
  effectOver(requests, {
    generate: async (_row: Request, { signal }) => {
      begun.resolve()
      await gone.promise
      return signal.aborted ? 'aborted' : 'fine'
    },
  })
  const id = ask(requests)
  await begun.promise
  requests.delete(id)
  await Promise.resolve()
  requests.insert({ id, prompt: 'Why?', status: 'generating' })
  gone.resolve()
  expect(await settled(requests, id)).toMatchObject({ status: 'completed', response: 'fine' })
})

test('a claim that says later is asked again, and nothing runs before it is given', async () => {
  const requests = requestsCollection()
  let asked = 0
  const runs: number[] = []
  effectOver(requests, {
    claim: async () => ((asked += 1) < 3 ? 'later' : { attempt: 1 }),
    generate: () => {
      runs.push(asked)
      return 'answer'
    },
  })
  expect(await settled(requests, ask(requests))).toMatchObject({ status: 'completed' })
  expect(runs).toEqual([3])
})

test('disposing aborts what runs, waits for it, and leaves it cancelled', async () => {
  const requests = requestsCollection()
  const begun = deferred()
  const { effect } = effectOver(requests, {
    generate: (row: Request, { signal }) => {
      requests.update(row.id, (draft) => void (draft.status = 'generating'))
      begun.resolve()
      return new Promise<string>((_, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason as Error)),
      )
    },
  })
  const id = ask(requests)
  await begun.promise
  await effect.dispose()
  expect(requests.get(id)?.status).toBe('cancelled')
  expect(effect.disposed).toBe(true)
})

test('with a claim any number of effects run a row once; one that is not ours is passed over', async () => {
  const requests = requestsCollection()
  const taken = new Set<string>()
  const settledBy: unknown[] = []
  const runs: string[] = []
  const claim = async ({ id }: { id: string }) => {
    if (taken.has(id)) return false
    taken.add(id)
    return { attempt: 2, settle: async (outcome: unknown) => void settledBy.push([id, outcome]) }
  }
  for (let consumer = 0; consumer < 3; consumer += 1) {
    effectOver(requests, {
      claim,
      generate: (row: Request, { attempt }) => {
        runs.push(row.id)
        return `attempt ${attempt}`
      },
    })
  }
  const ids = Array.from({ length: 20 }, () => ask(requests))
  for (const id of ids) expect(await settled(requests, id)).toMatchObject({ response: 'attempt 2' })
  expect(runs.toSorted()).toEqual(ids.toSorted())
  expect(settledBy).toHaveLength(20)
})

test('concurrency bounds what runs at a time', async () => {
  const requests = requestsCollection()
  let running = 0
  let most = 0
  effectOver(requests, {
    concurrency: 2,
    generate: async () => {
      running += 1
      most = Math.max(most, running)
      await Promise.resolve()
      running -= 1
      return 'x'
    },
  })
  const ids = Array.from({ length: 10 }, () => ask(requests))
  for (const id of ids) await settled(requests, id)
  expect(most).toBe(2)
})

test('the row and the result are typed by the query and by generate', () => {
  const requests = requestsCollection()
  const effect = createGenerationEffect({
    query: (q) => q.from({ r: requests }),
    generate: async (row) => {
      expectTypeOf(row.prompt).toEqualTypeOf<string>()
      return row.prompt.length
    },
    onComplete: (_row, result) => expectTypeOf(result).toEqualTypeOf<number>(),
  })
  onTestFinished(() => effect.dispose())
  const unfit = createCollection(
    localOnlyCollectionOptions<{ key: string }, string>({
      id: next('unfit'),
      getKey: (r) => r.key,
    }),
  )
  const wrong = createGenerationEffect({
    // @ts-expect-error rows need { id, status }
    query: (q) => q.from({ u: unfit }),
    generate: () => 1,
  })
  onTestFinished(() => wrong.dispose())
})

test('durableChat: tools become rows that another effect executes, chunks become rows, the text comes back', async () => {
  const { toolCalls, generation } = await localWorld()
  const generationId = await generation()
  const chunks = createCollection(
    localOnlyCollectionOptions<
      { id: string; generationId: string; index: number; type: string; content: string },
      string
    >({ id: next('chunks'), getKey: (row) => row.id }),
  )
  const executor = createToolExecutionEffect({
    query: (q) => q.from({ c: toolCalls }).where(({ c }) => eq(c.status, 'pending')),
    tools: [searchTool],
    implementations: { searchDatabase: ({ query }) => ({ results: [`found ${query}`] }) },
    onExecuting: (row) => toolCalls.update(row.id, (draft) => void (draft.status = 'executing')),
    onComplete: (row, result) =>
      toolCalls.update(
        row.id,
        (draft) => void Object.assign(draft, { status: 'completed', result }),
      ),
  })
  onTestFinished(() => executor.dispose())
  const calls = ['a', 'b'].map((query) => ({
    id: next('provider-call'),
    name: 'searchDatabase',
    args: { query },
  }))
  const adapter = scriptedAdapter({
    turns: [{ text: 'Looking. ', toolCalls: calls }, { text: 'Found both.' }],
  })
  const { content } = await durableChat({
    adapter,
    messages: [{ role: 'user', content: 'Search' }],
    tools: [searchTool],
    toolCalls: {
      collection: toolCalls,
      ...durableOptions,
      transform: (call) => durableOptions.transform(call, generationId),
    },
    chunks: {
      collection: chunks,
      generationId,
      filter: isContentChunk,
      transform: (chunk, index, id) => ({
        id: `${id}-${index}`,
        generationId: id,
        index,
        type: mapChunkType(chunk.type),
        content: 'delta' in chunk && typeof chunk.delta === 'string' ? chunk.delta : '',
      }),
    },
  })
  expect(content).toBe('Looking. Found both.')
  expect(chunksToText(chunks.values())).toBe(content)
  for (const { id } of calls) expect(toolCalls.get(id)?.status).toBe('completed')
  expect(JSON.stringify(adapter.calls[1]?.messages)).toContain('found b')
})

test('durableChat without rows is the text of chat(); aborted, it says so', async () => {
  const messages = [{ role: 'user' as const, content: 'Hi' }]
  const answer = await durableChat({
    adapter: scriptedAdapter({ turns: [{ text: 'Hi!' }] }),
    messages,
  })
  expect(answer).toEqual({ content: 'Hi!' })
  const abortController = new AbortController()
  const cut = durableChat({
    adapter: scriptedAdapter({
      turns: [{ text: 'Never mind', beforeToken: () => abortController.abort() }],
    }),
    messages,
    abortController,
  })
  await expect(cut).rejects.toMatchObject({ code: 'CANCELLED' })
})
