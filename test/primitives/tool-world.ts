/**
 * Worlds for the tool primitives: the same tests run over local-only collections and over Postgres through
 * Electric collections, where a write is confirmed by its txid. Each world has rows of the same shape.
 */
import { snakeCamelMapper } from '@electric-sql/client'
import { toolDefinition } from '@tanstack/ai'
import { createCollection, localOnlyCollectionOptions, type Collection } from '@tanstack/db'
import { electricCollectionOptions } from '@tanstack/electric-db-collection'
import type postgres from 'postgres'
import { onTestFinished } from 'vitest'
import { z } from 'zod'
import { createSession } from '../../src/sessions/create-session.js'
import { pollUntil } from '../support/poll-until.js'
import { createSyncedDatabase, type SyncedDatabase } from '../support/synced-database.js'

export const searchTool = toolDefinition({
  name: 'searchDatabase',
  description: 'Search the database',
  inputSchema: z.object({ query: z.string() }),
  outputSchema: z.object({ results: z.array(z.string()) }),
})
export const analysisTool = toolDefinition({
  name: 'analyzeDocument',
  description: 'Analyze a document',
  inputSchema: z.object({ document: z.string() }),
  outputSchema: z.object({ summary: z.string() }),
})

// A type, as Electric's rows want an index signature.
export type CallRow = {
  id: string
  generationId: string
  name: string
  args: unknown
  status: 'pending' | 'executing' | 'completed' | 'failed' | 'cancelled'
  cancelReason: 'by-user' | 'by-timeout' | 'by-error' | null
  result: unknown
  error: string | null
}

export type GenerationRow = {
  id: string
  status: string
  cancelReason: 'by-user' | 'by-timeout' | 'by-error' | null
}

export interface ToolWorld {
  toolCalls: Collection<CallRow, string>
  generations: Collection<GenerationRow, string>
  /** A generation that runs. @returns its id */
  generation(): Promise<string>
  cancelGeneration(id: string): Promise<void>
}

let count = 0
export const next = (what: string) => `${what}-${(count += 1)}`

export function pendingCall(generationId: string, changes: Partial<CallRow> = {}): CallRow {
  return {
    id: next('call'),
    generationId,
    name: 'searchDatabase',
    args: { query: 'rows' },
    status: 'pending',
    cancelReason: null,
    result: null,
    error: null,
    ...changes,
  }
}

/** The RFC's example options. */
export const durableOptions = {
  transform: (call: { id: string; name: string; args: unknown }, generationId?: string): CallRow =>
    pendingCall(generationId!, call),
  isComplete: (row: CallRow) => row.status === 'completed' || row.status === 'failed',
  getResult: (row: CallRow) => {
    if (row.status === 'failed') throw new Error(row.error ?? 'failed')
    return row.result as never
  },
}

export async function localWorld(): Promise<ToolWorld> {
  const toolCalls = createCollection(
    localOnlyCollectionOptions<CallRow, string>({
      id: next('tool-calls'),
      getKey: (row) => row.id,
    }),
  )
  const generations = createCollection(
    localOnlyCollectionOptions<GenerationRow, string>({
      id: next('generations'),
      getKey: (row) => row.id,
    }),
  )
  return {
    toolCalls: toolCalls as unknown as Collection<CallRow, string>,
    generations: generations as unknown as Collection<GenerationRow, string>,
    async generation() {
      const id = next('generation')
      await generations.insert({ id, status: 'generating', cancelReason: null }).isPersisted.promise
      return id
    },
    async cancelGeneration(id) {
      const cancelled = generations.update(id, (draft) => {
        draft.status = 'cancelled'
        draft.cancelReason = 'by-user'
      })
      await cancelled.isPersisted.promise
    },
  }
}

let synced: SyncedDatabase | undefined

/** The tables of the library, written by SQL as a host's own handlers would. Call `useSyncedDatabase()` in `beforeAll`. */
export async function useSyncedDatabase(): Promise<SyncedDatabase> {
  synced = await createSyncedDatabase()
  return synced
}

export async function electricWorld(): Promise<ToolWorld> {
  const database = synced!
  const { sql, schema } = database
  const session = await createSession(database.db, {}, { schema })
  const shape = (table: string, columns: string[]) => ({
    url: `${database.electricUrl}/v1/shape`,
    params: {
      table: `"${schema}"."${table}"`,
      columns,
      where: 'session_id = $1',
      params: { 1: session.id },
      ...(database.electricSecret ? { secret: database.electricSecret } : {}),
    },
    columnMapper: snakeCamelMapper(),
  })
  const toolCalls = createCollection(
    electricCollectionOptions<CallRow>({
      id: next('tool-calls'),
      getKey: (row) => row.id,
      gcTime: 0,
      shapeOptions: shape('tool_calls', CALL_COLUMNS),
      onInsert: ({ transaction }) =>
        inOneTransaction(database, (tx) =>
          Promise.all(
            transaction.mutations.map(({ modified }) =>
              insertCall(tx, schema, session.id, modified),
            ),
          ),
        ),
      onUpdate: ({ transaction }) =>
        inOneTransaction(database, (tx) =>
          Promise.all(
            transaction.mutations.map(({ modified }) => updateCall(tx, schema, modified)),
          ),
        ),
    }),
  )
  const generations = createCollection(
    electricCollectionOptions<GenerationRow>({
      id: next('generations'),
      getKey: (row) => row.id,
      gcTime: 0,
      shapeOptions: shape('generations', ['id', 'status', 'cancel_reason']),
    }),
  )
  await generations.preload()
  onTestFinished(async () => {
    await Promise.all([toolCalls.cleanup(), generations.cleanup()])
  })
  return {
    toolCalls: toolCalls as unknown as Collection<CallRow, string>,
    generations: generations as unknown as Collection<GenerationRow, string>,
    async generation() {
      const id = next('generation')
      await sql.unsafe(
        `insert into "${schema}".generations (id, session_id, agent_name) values ($1, $2, $3)`,
        [id, session.id, id],
      )
      await pollUntil('the generation', () => generations.has(id))
      return id
    },
    async cancelGeneration(id) {
      await sql.unsafe(
        `update "${schema}".generations set status = 'cancelled', cancel_reason = 'by-user', completed_at = now() where id = $1`,
        [id],
      )
    },
  }
}

const CALL_COLUMNS = [
  'id',
  'generation_id',
  'name',
  'args',
  'status',
  'cancel_reason',
  'result',
  'error',
]

async function inOneTransaction(
  { sql }: SyncedDatabase,
  write: (tx: postgres.TransactionSql) => Promise<unknown>,
): Promise<{ txid: number }> {
  const [row] = await sql.begin(async (tx) => {
    await write(tx)
    return tx<{ txid: string }[]>`select pg_current_xact_id()::xid::text as txid`
  })
  return { txid: Number(row!.txid) }
}

let index = 0

export function insertCall(
  tx: { unsafe: postgres.Sql['unsafe'] },
  schema: string,
  sessionId: string,
  call: CallRow,
): Promise<unknown> {
  return tx.unsafe(
    `insert into "${schema}".tool_calls (id, generation_id, session_id, step, index, provider_call_id, name, args)
     values ($1, $2, $3, 0, $4, $1, $5, $6::text::jsonb)`,
    [call.id, call.generationId, sessionId, (index += 1), call.name, JSON.stringify(call.args)],
  )
}

/** The moves a host's own update handler makes; a row that is no longer there to be moved is refused. */
async function updateCall(
  tx: { unsafe: postgres.Sql['unsafe'] },
  schema: string,
  call: CallRow,
): Promise<void> {
  const moved = await tx.unsafe(
    `update "${schema}".tool_calls set status = $2, result = $3::text::jsonb, error = $4, cancel_reason = $5,
       metadata = metadata,
       attempt = attempt + case when $2 = 'executing' and status = 'pending' then 1 else 0 end,
       worker_id = case when $2 = 'executing' then 'host' else worker_id end,
       completed_at = case when $2 in ('completed', 'failed', 'cancelled') then now() end
     where id = $1 and status in ('pending', 'executing') returning id`,
    [call.id, call.status, jsonOrNull(call.result), call.error, call.cancelReason],
  )
  if (moved.length === 0) throw new Error(`tool call ${call.id} was settled already`)
}

const jsonOrNull = (value: unknown) =>
  value === null || value === undefined ? null : JSON.stringify(value)
