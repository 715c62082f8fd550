/** The README's example of the tool primitives, compiled; `readme-tools.test.ts` holds it to the README. Never run. */
import { chat, toolDefinition, type ModelMessage } from '@tanstack/ai'
import { createCollection, eq, localOnlyCollectionOptions } from '@tanstack/db'
import type { PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import { z } from 'zod'
import { createToolExecutionEffect, makeDurableTools, parallelToolCalls } from '../../src/index.js'
import { createStore, postgresToolClaims } from '../../src/server.js'
import { scriptedAdapter } from '../../src/testing.js'

interface Row {
  id: string
  name: string
  args: unknown
  status: 'pending' | 'executing' | 'completed' | 'failed'
  result?: unknown
  error?: string
  generationId?: string | undefined
}

const searchTool = toolDefinition({
  name: 'search',
  description: 'Search',
  inputSchema: z.object({ query: z.string() }),
  outputSchema: z.array(z.string()),
})
const toolCalls = createCollection(
  localOnlyCollectionOptions<Row, string>({ id: 'calls', getKey: (row) => row.id }),
)
declare const db: PostgresJsDatabase
declare function search(query: string, signal: AbortSignal): Promise<string[]>
const adapter = scriptedAdapter({ turns: [] })
const messages: ModelMessage[] = []

// README
// Where the model runs: each call becomes a row, and waits for its result.
const tools = makeDurableTools([searchTool], toolCalls, {
  transform: (call, generationId) => ({ ...call, generationId, status: 'pending' }),
  isComplete: (row) => row.status === 'completed' || row.status === 'failed',
  getResult: (row) => (row.status === 'failed' ? Promise.reject(row.error) : row.result),
  timeout: 60_000,
})
const stream = chat({ adapter, messages, tools, middleware: [parallelToolCalls(tools)] })

// Where the tools run, in this process or another. Implementations are typed by the tools.
const claims = await postgresToolClaims({ store: createStore(db) })
const effect = createToolExecutionEffect({
  query: (q) => q.from({ call: toolCalls }).where(({ call }) => eq(call.status, 'pending')),
  tools: [searchTool],
  implementations: { search: async ({ query }, { signal }) => search(query, signal) },
  claim: claims.claim, // any number of consumers; without it, be the only one
  concurrency: 10,
})
// end

export { effect, stream }
