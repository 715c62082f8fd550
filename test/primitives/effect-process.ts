/**
 * A process with one tool execution effect over the contract tables: `tsx effect-process.ts <json>`. Prints
 * `ready`, then one line a call it executed; ends when its input does.
 */
import { snakeCamelMapper } from '@electric-sql/client'
import { createCollection, eq } from '@tanstack/db'
import { electricCollectionOptions } from '@tanstack/electric-db-collection'
import { toolDefinition } from '@tanstack/ai'
import { drizzle } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { z } from 'zod'
import { createToolExecutionEffect } from '../../src/index.js'
import { createStore, postgresToolClaims } from '../../src/server.js'

export interface EffectProcessOptions {
  databaseUrl: string
  electricUrl: string
  electricSecret?: string
  schema: string
  concurrency: number
  leaseMs: number
}

type Row = { id: string; name: string; args: unknown; status: string }

const options = JSON.parse(process.argv[2]!) as EffectProcessOptions
const client = postgres(options.databaseUrl, { max: 4, onnotice: () => undefined })
const store = createStore(drizzle({ client }), { schema: options.schema })
const claims = await postgresToolClaims({ store, leaseMs: options.leaseMs })
const toolCalls = createCollection(
  electricCollectionOptions<Row>({
    id: 'tool-calls',
    getKey: (row) => row.id,
    shapeOptions: {
      url: `${options.electricUrl}/v1/shape`,
      params: {
        table: `"${options.schema}"."tool_calls"`,
        columns: ['id', 'name', 'args', 'status'],
        ...(options.electricSecret ? { secret: options.electricSecret } : {}),
      },
      columnMapper: snakeCamelMapper(),
    },
  }),
)
const doubleTool = toolDefinition({
  name: 'double',
  description: 'Doubles a number',
  inputSchema: z.object({ n: z.number() }),
  outputSchema: z.number(),
})
const effect = createToolExecutionEffect({
  query: (q) => q.from({ tc: toolCalls }).where(({ tc }) => eq(tc.status, 'pending')),
  tools: [doubleTool],
  implementations: {
    double: ({ n }, { toolCallId }) => {
      console.log(toolCallId)
      return 2 * n
    },
  },
  claim: claims.claim,
  concurrency: options.concurrency,
})
await toolCalls.preload()
console.log('ready')
process.stdin.resume()
await new Promise((resolve) => process.stdin.once('end', resolve))
await effect.dispose()
await claims.close()
await toolCalls.cleanup()
await client.end({ timeout: 5 })
process.exit(0)
