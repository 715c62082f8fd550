/**
 * The RFC's implementation invariants by their names, over local-only collections and over Postgres. Here are 1 to 6 and
 * 10. Invariants 7, 8 and 9 are properties of a lifecycle and have their tests, over memory and Postgres, in
 * test/lifecycle/rfc-invariants.test.ts; 10 over a real transport is in test/lifecycle/webhook.test.ts.
 *
 * 5 and 6 are promises about agents: on Postgres the worker keeps them, for any number of workers. Local-only they are
 * what the primitives give in one process: a correlation that is fields of rows, and an effect that is the one consumer.
 */
import type { StreamChunk } from '@tanstack/ai'
import { eq, queryOnce } from '@tanstack/db'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { DurableLifecycle } from '../../src/contract/lifecycle.js'
import { defineAgent } from '../../src/agent/define-agent.js'
import {
  chunksToText,
  createGenerationEffect,
  createToolExecutionEffect,
  durableChat,
  runWithLifecycle,
  streamToCollection,
} from '../../src/index.js'
import { deferred } from '../../src/internal/abort.js'
import { postgresLifecycle } from '../../src/runner/postgres-lifecycle.js'
import { memoryLifecycle, scriptedAdapter } from '../../src/testing.js'
import { pollUntil } from '../support/poll-until.js'
import { createSyncedDatabase, type SyncedDatabase } from '../support/synced-database.js'
import { say, scripted, startWorker, untilSettled } from '../worker/turn-world.js'
import { electricBackend } from './backend-electric.js'
import { localBackend } from './backend-local.js'
import {
  callRow,
  chunkRow,
  finalRow,
  next,
  requestRow,
  searchTool,
  type Device,
} from './backend-world.js'

let database: SyncedDatabase
beforeAll(async () => {
  database = await createSyncedDatabase()
})

const ended = async (device: Device, table: 'calls' | 'requests', id: string) =>
  pollUntil(`the end of ${id}`, () => {
    const row = device.collections[table].get(id)
    return row?.$synced && ['completed', 'failed', 'cancelled'].includes(row.status) && row
  })

function executing(
  device: Device,
  search: (query: string) => Promise<string[]>,
  lateResult: 'discard' | 'store' = 'discard',
) {
  const { calls, requests } = device.collections
  const effect = createToolExecutionEffect({
    query: (q) => q.from({ call: calls }).where(({ call }) => eq(call.status, 'pending')),
    tools: [searchTool],
    implementations: { searchDatabase: async ({ query }) => ({ results: await search(query) }) },
    generations: requests,
    generationId: (row) => row.requestId,
    lateResult,
    onExecuting: (row) => device.update('calls', row.id, { status: 'executing' }),
    onComplete: (row, result) => device.update('calls', row.id, { status: 'completed', result }),
  })
  onTestFinished(() => effect.dispose())
  return effect
}

describe.each([
  ['local-only', localBackend, () => memoryLifecycle()],
  ['Postgres', () => electricBackend(database), undefined],
] as const)('%s', (where, makeBackend, memory) => {
  const newLifecycle = (leaseMs: number): DurableLifecycle =>
    memory ? memory() : postgresLifecycle({ db: database.db, schema: database.schema, leaseMs })

  test('1. no duplicate tool execution: executing, a row has left the query; touched, it is not executed again', async () => {
    const device = await (await makeBackend()).open()
    const hold = deferred()
    const executions: string[] = []
    executing(device, async (query) => {
      executions.push(query)
      await hold.promise
      return [query]
    })
    const row = callRow({ args: { query: 'once' } })
    await device.insert('calls', row)
    await pollUntil('the execution', () => executions.length === 1)
    const pending = () =>
      queryOnce((q) =>
        q.from({ call: device.collections.calls }).where(({ call }) => eq(call.status, 'pending')),
      )
    expect(await pending()).toEqual([])
    // Even a writer who says pending again does not have it executed twice.
    await device.update('calls', row.id, { status: 'pending' })
    await device.update('calls', row.id, { status: 'executing' })
    hold.resolve()
    expect(await ended(device, 'calls', row.id)).toMatchObject({ status: 'completed' })
    // Nor afterwards; a row behind it has its turn.
    await device.update('calls', row.id, { status: 'pending' })
    const behind = callRow({ args: { query: 'behind' } })
    await device.insert('calls', behind)
    await ended(device, 'calls', behind.id)
    expect(executions).toEqual(['once', 'behind'])
  })

  test('2. deterministic chunk ordering: indexes grow, and a device that syncs anew orders by them', async () => {
    const backend = await makeBackend()
    const writer = await backend.open()
    const texts = { [next('generation')]: 'One two three four.', [next('generation')]: 'Five six.' }
    await Promise.all(
      Object.entries(texts).map(([generationId, text]) =>
        streamToCollection(wordsOf(text), {
          collection: writer.collections.chunks,
          generationId,
          transform: chunkRow,
          final: finalRow,
        }),
      ),
    )
    const reader = await backend.open()
    for (const [generationId, text] of Object.entries(texts)) {
      const ordered = await queryOnce((q) =>
        q
          .from({ chunk: reader.collections.chunks })
          .where(({ chunk }) => eq(chunk.generationId, generationId))
          .orderBy(({ chunk }) => chunk.index),
      )
      expect(ordered.map(({ index }) => index)).toEqual(ordered.map((_, index) => index))
      expect(ordered.map(({ content }) => content).join('')).toBe(text)
      expect(ordered.at(-1)!.isFinal).toBe(true)
      // Replayed in any order, twice: the same text.
      expect(chunksToText([...ordered.toReversed(), ...ordered])).toBe(text)
    }
  })

  test('3. cancellation propagation: disposing aborts chat(), and waits until its handler has ended', async () => {
    const device = await (await makeBackend()).open()
    const streaming = deferred()
    const order: string[] = []
    const adapter = scriptedAdapter({
      turns: [
        {
          text: 'One two three four.',
          then: 'hang',
          beforeToken: (index) => void (index === 2 && streaming.resolve()),
        },
      ],
    })
    const effect = createGenerationEffect({
      query: (q) =>
        q.from({ r: device.collections.requests }).where(({ r }) => eq(r.status, 'pending')),
      generate: async (_row, { signal }) => {
        const abortController = new AbortController()
        signal.addEventListener('abort', () => {
          order.push('ctx.signal')
          abortController.abort(signal.reason)
        })
        abortController.signal.addEventListener('abort', () => order.push('abortController'))
        const messages = [{ role: 'user' as const, content: 'go' }]
        try {
          return await durableChat({ adapter, messages, abortController })
        } finally {
          order.push('chat ended')
        }
      },
    })
    const row = requestRow()
    await device.insert('requests', row)
    await streaming.promise
    await effect.dispose()
    expect(order).toEqual(['ctx.signal', 'abortController', 'chat ended'])
    expect(adapter.calls[0]!.signal?.aborted).toBe(true)
    expect(await ended(device, 'requests', row.id)).toMatchObject({ status: 'cancelled' })
  })

  test.each([
    ['discard', { status: 'cancelled', result: null }],
    ['store', { status: 'completed', result: { results: ['late'] } }],
  ] as const)(
    '4. late-result policy: by %s, and the cancelled generation stays so',
    async (lateResult, expected) => {
      const device = await (await makeBackend()).open()
      const [began, hold] = [deferred(), deferred()]
      executing(
        device,
        async (query) => {
          began.resolve()
          await hold.promise
          return [query]
        },
        lateResult,
      )
      const request = requestRow({ status: 'generating' })
      await device.insert('requests', request)
      const call = callRow({ requestId: request.id, args: { query: 'late' } })
      await device.insert('calls', call)
      await began.promise
      await device.update('requests', request.id, { status: 'cancelled' })
      hold.resolve()
      expect(await ended(device, 'calls', call.id)).toMatchObject(expected)
      expect(device.collections.requests.get(request.id)).toMatchObject({
        status: 'cancelled',
        response: null,
      })
    },
  )

  test('10. keepalive responsibility is explicit: heartbeats hold a wake; without them it is another’s', async () => {
    const LEASE_MS = 600
    const lifecycle = newLifecycle(LEASE_MS)
    const wake = { runnerId: crypto.randomUUID() }
    const { signal } = new AbortController()
    let beats = 0
    const counted: DurableLifecycle = {
      ...lifecycle,
      heartbeat: async (state) => {
        await lifecycle.heartbeat!(state)
        beats += 1
      },
    }
    const takenOver = async () => {
      // The lease in memory ends when a test says so; that in Postgres by itself.
      if ('expire' in lifecycle)
        (lifecycle as ReturnType<typeof memoryLifecycle>).expire(wake.runnerId)
      return lifecycle.claimWake(wake, { signal }).then(
        () => true,
        () => false,
      )
    }
    await runWithLifecycle(
      wake,
      counted,
      async (session) => {
        // Several leases long.
        await pollUntil('heartbeats', () => beats >= 12)
        await expect(lifecycle.claimWake(wake, { signal })).rejects.toMatchObject({
          code: 'WAKE_REJECTED',
        })
        await session.complete({ done: false })
      },
      { heartbeatIntervalMs: LEASE_MS / 4 },
    )
    const silent = runWithLifecycle(
      wake,
      counted,
      async (session) => {
        await pollUntil('another to take it', takenOver)
        await session.checkpoint([{ source: 's', cursor: '1' }])
      },
      { heartbeatIntervalMs: 0 },
    )
    await expect(silent).rejects.toMatchObject({ code: 'FENCED' })
  })

  test('5. agent-call correlation: a reply answers the request it names, and no other', async () => {
    if (where === 'Postgres') return correlatedByWorkers(database)
    await correlatedByRows(await (await makeBackend()).open())
  })

  test('6. single-runner guarantee: one active generation loop per session and agent', async () => {
    if (where === 'Postgres') return singleByWorkers(database)
    await singleByEffect(await (await makeBackend()).open())
  })
})

async function* wordsOf(text: string): AsyncGenerator<StreamChunk> {
  for (const delta of text.split(/(?<= )/))
    yield { type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta } as StreamChunk
}

/** Requests are rows of an effect, replies rows that name them; a spontaneous row answers nobody. */
async function correlatedByRows({ collections, insert }: Device) {
  const effect = createGenerationEffect({
    query: (q) => q.from({ m: collections.calls }).where(({ m }) => eq(m.name, 'request')),
    generate: (row) => `answer to ${String(row.args)}`,
    onComplete: (row, result) => {
      const reply = { name: 'reply', requestId: row.id, result, status: 'completed' as const }
      return insert('calls', callRow(reply))
    },
  })
  onTestFinished(() => effect.dispose())
  await insert('calls', callRow({ name: 'reply', requestId: '', result: 'by the way' }))
  const requests = ['a', 'b'].map((args) => callRow({ name: 'request', args }))
  for (const row of requests) await insert('calls', row)
  for (const { id, args } of requests) {
    const replies = await pollUntil('the reply', async () => {
      const found = await queryOnce((q) =>
        q.from({ m: collections.calls }).where(({ m }) => eq(m.requestId, id)),
      )
      return found.length > 0 && found
    })
    expect(replies.map(({ result }) => result)).toEqual([`answer to ${String(args)}`])
  }
}

/** An agent asks another: the call's id goes out as request_id and comes back as in_reply_to. */
async function correlatedByWorkers({ db, sql, schema }: SyncedDatabase) {
  const helper = defineAgent({
    name: 'helper',
    instructions: 'Help.',
    adapter: scriptedAdapter({ respond: () => ({ text: 'It is 42.' }) }),
  })
  const { agent } = scripted(
    [
      { toolCalls: [{ name: 'helper', args: { message: 'What is it?' } }] },
      { text: 'The helper says 42.' },
    ],
    { agents: [{ agent: 'helper', description: 'Helps' }], parkAfterMs: 0 },
  )
  await startWorker({ db, schema, agents: [agent, helper], slots: 4 })
  const { generationId, sessionId } = await say(db, 'Ask the helper', { schema })
  await untilSettled(db, generationId, schema)
  const rows = await sql.unsafe<Record<string, string | null>[]>(
    `select role, actor_id, target_agent, request_id, in_reply_to from "${schema}".messages
      where session_id = $1 order by seq`,
    [sessionId],
  )
  const request = rows.find((row) => row.request_id !== null)!
  expect(request).toMatchObject({ target_agent: 'helper', in_reply_to: null })
  const replies = rows.filter((row) => row.in_reply_to !== null)
  expect(replies).toMatchObject([{ actor_id: 'helper', in_reply_to: request.request_id }])
  const [call] = await sql.unsafe<{ id: string; status: string }[]>(
    `select id, status from "${schema}".tool_calls where generation_id = $1`,
    [generationId],
  )
  expect(call).toEqual({ id: request.request_id, status: 'completed' })
}

/** One effect is the runner of its session and agent: with a concurrency of 1 its loops follow each other. */
async function singleByEffect({ collections, insert, update }: Device) {
  const active = counter()
  const effect = createGenerationEffect({
    query: (q) => q.from({ r: collections.requests }).where(({ r }) => eq(r.status, 'pending')),
    concurrency: 1,
    generate: (row) =>
      active.during(async () => {
        await update('requests', row.id, { status: 'generating' })
        return row.prompt
      }),
    onComplete: (row, response) => update('requests', row.id, { status: 'completed', response }),
  })
  onTestFinished(() => effect.dispose())
  const rows = Array.from({ length: 6 }, () => requestRow())
  await Promise.all(rows.map((row) => insert('requests', row)))
  await pollUntil('all of them', () =>
    rows.every(({ id }) => collections.requests.get(id)?.status === 'completed'),
  )
  expect(active.most).toBe(1)
}

/** Two workers with slots to spare: whatever is sent, a session's agent is one loop. */
async function singleByWorkers({ db, schema }: SyncedDatabase) {
  const active = counter()
  const { agent } = scripted(() => ({
    text: 'One two.',
    beforeToken: (index) =>
      index === 0
        ? active.during(() => new Promise((resolve) => setImmediate(resolve)))
        : undefined,
  }))
  const options = { db, schema, agents: [agent], slots: 4 }
  await Promise.all([startWorker(options), startWorker(options)])
  const { generationId, sessionId } = await say(db, 'first', { schema })
  const generations = [generationId]
  for (let message = 0; message < 5; message += 1)
    generations.push((await say(db, `more ${message}`, { schema, sessionId })).generationId)
  for (const id of generations) await untilSettled(db, id, schema)
  expect(active.most).toBe(1)
}

function counter() {
  let now = 0
  const counted = {
    most: 0,
    async during<T>(work: () => Promise<T>): Promise<T> {
      now += 1
      counted.most = Math.max(counted.most, now)
      try {
        return await work()
      } finally {
        now -= 1
      }
    },
  }
  return counted
}
