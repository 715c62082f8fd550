/**
 * A process of a host that uses the primitives over Electric collections. `asks`: it calls a durable tool. `executes`: it
 * has the effects that execute calls and generate.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { toolDefinition, type StreamChunk } from '@tanstack/ai'
import { eq } from '@tanstack/db'
import { z } from 'zod'
import {
  createGenerationEffect,
  createToolExecutionEffect,
  makeDurableTool,
  streamToCollection,
} from '../../src/index.js'
import { now } from '../clock.js'
import { connect } from '../world.js'
import { hostCollection, type CallRow, type ChunkRow, type RequestRow } from './host-collections.js'
import { childConfig, takeOrders, tell } from './parent.js'

const TOKENS_PER_SECOND = 50
const { databaseUrl, electricUrl, role } = childConfig<'primitives'>()
const db = connect(databaseUrl, 20)
const sql = db.$client
const add = toolDefinition({
  name: 'add',
  description: 'Adds',
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  outputSchema: z.object({ sum: z.number() }),
})

const calls = await hostCollection<CallRow>(sql, electricUrl, 'host_calls')
const leave = role === 'asks' ? async () => undefined : await executes()
takeOrders(
  async () => {
    await leave()
    await sql.end({ timeout: 1 })
  },
  (order) => {
    if (order.type === 'ours') void askTimes(order.count)
  },
)
tell({ type: 'ready' })

/** One durable call after another; each one's time from its beginning to its result. */
async function askTimes(count: number): Promise<void> {
  const tool = makeDurableTool(add, calls, {
    transform: (call) => ({ ...call, status: 'pending', result: null }) as CallRow,
    isComplete: (row: CallRow) => row.status === 'completed',
    getResult: (row: CallRow) => row.result as { sum: number },
  })
  const latencies: number[] = []
  for (let call = 0; call < count; call += 1) {
    await delay(5 + Math.random() * 20)
    const at = now()
    await tool.execute({ a: call, b: 1 }, { toolCallId: crypto.randomUUID() })
    latencies.push(now() - at)
  }
  tell({ type: 'read', latencies, tokens: [latencies.length], rewrites: 0 })
}

async function executes(): Promise<() => Promise<void>> {
  const requests = await hostCollection<RequestRow>(sql, electricUrl, 'host_requests')
  const chunks = await hostCollection<ChunkRow>(sql, electricUrl, 'host_chunks')
  const change = (row: { id: string }, changes: Partial<CallRow>) =>
    calls.update(row.id, (draft) => void Object.assign(draft, changes))
  const tools = createToolExecutionEffect({
    query: (q) => q.from({ call: calls }).where(({ call }) => eq(call.status, 'pending')),
    tools: [add],
    implementations: { add: ({ a, b }) => ({ sum: a + b }) },
    onExecuting: (row) => change(row, { status: 'executing' }),
    onComplete: (row, result) => change(row, { status: 'completed', result }),
    onError: (_row, error) => console.error(error),
  })
  let active = 0
  let most = 0
  const generations = createGenerationEffect({
    query: (q) => q.from({ r: requests }).where(({ r }) => eq(r.status, 'pending')),
    generate: async ({ id, tokens, packMs }) => {
      tell({ type: 'begun', key: id, at: now() })
      most = Math.max(most, (active += 1))
      const latencies: number[] = []
      if (tokens > 0) {
        await streamToCollection(spoken(tokens), {
          collection: chunks,
          generationId: id,
          packMs,
          transform: (chunk, index, generationId) => ({
            ...{ id: `${generationId}-${index}`, generationId, index },
            content: (chunk as { delta: string }).delta,
          }),
          insert: (row: ChunkRow) => {
            const at = now()
            const inserted = chunks.insert(row)
            const note = () => void latencies.push(now() - at)
            inserted.isPersisted.promise.then(note, () => undefined)
            return inserted
          },
        })
      }
      active -= 1
      tell({ type: 'read', latencies, tokens: [most], rewrites: 0 })
    },
    onError: (_row, error) => console.error(error),
    onComplete: (row) =>
      requests.update(row.id, (draft) => void Object.assign(draft, { status: 'completed' })),
  })
  return async () => {
    await Promise.all([tools.dispose(), generations.dispose()])
  }
}

async function* spoken(tokens: number): AsyncGenerator<StreamChunk> {
  const began = now()
  for (let token = 0; token < tokens; token += 1) {
    const wait = began + (token * 1000) / TOKENS_PER_SECOND - now()
    if (wait > 0) await delay(wait)
    yield { type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta: `word-${token} ` } as StreamChunk
  }
}
