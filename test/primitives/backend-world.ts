/**
 * What the suite of backends asks of a backend: devices over the same rows, each with collections of its own. The
 * rows and tables are a host's, not the library's: no helper knows them. One file per backend makes it:
 * backend-local.ts, backend-electric.ts, backend-stream-db.ts, backend-query.ts.
 */
import { toolDefinition, type StreamChunk } from '@tanstack/ai'
import type { Collection } from '@tanstack/db'
import { z } from 'zod'
import type { ClaimToolCall } from '../../src/contract/tool-claims.js'
import { mapChunkType } from '../../src/generation/chunk-type.js'

// Types, as Electric's rows want an index signature.
export type CallRow = {
  id: string
  requestId: string
  name: string
  args: unknown
  status: 'pending' | 'executing' | 'completed' | 'failed' | 'cancelled'
  result: unknown
  error: string | null
}

export type RequestRow = {
  id: string
  prompt: string
  status: 'pending' | 'generating' | 'completed' | 'failed' | 'cancelled'
  response: string | null
}

export type ChunkRow = {
  id: string
  generationId: string
  index: number
  type: string
  content: string
  isFinal: boolean
}

export interface Tables {
  calls: CallRow
  requests: RequestRow
  chunks: ChunkRow
}

export const TABLES = ['calls', 'requests', 'chunks'] as const satisfies (keyof Tables)[]

export interface Device {
  readonly collections: { [Name in keyof Tables]: Collection<Tables[Name], string> }
  /** Writes that resolve when the backend has confirmed them. */
  insert<Name extends keyof Tables>(table: Name, row: Tables[Name]): Promise<void>
  update<Name extends keyof Tables>(
    table: Name,
    id: string,
    changes: Partial<Tables[Name]>,
  ): Promise<void>
  /** For the primitives' `insert` option, where the collections have no handlers. */
  insertOption<Name extends keyof Tables>(table: Name): { insert?: (row: Tables[Name]) => unknown }
  /** For the primitives that mark rows as cancelled, where the collections have no handlers. */
  cancelOption(): { cancel?: (row: CallRow) => unknown }
}

export interface Backend {
  /** Another device, where there can be one; the same one otherwise. */
  open(): Promise<Device>
  /** Is a row that is not confirmed yet told from one that is? */
  readonly tellsUnconfirmed: boolean
  /** Until released, writes do not reach the backend. */
  hold(): () => void
  /** One atomic decision for all devices. */
  readonly claim: ClaimToolCall<{ id: string }>
}

/** A row that every backend refuses. */
export const REFUSED = 'refused'

/** Holds writes for as long as a test wants. */
export class Gate {
  #closed: Promise<void> | undefined

  pass(): Promise<void> {
    return this.#closed ?? Promise.resolve()
  }

  hold(): () => void {
    let open = () => {}
    this.#closed = new Promise((resolve) => (open = resolve))
    return () => {
      this.#closed = undefined
      open()
    }
  }
}

let count = 0
export const next = (what: string) => `${what}-${(count += 1)}`

export const searchTool = toolDefinition({
  name: 'searchDatabase',
  description: 'Search the database',
  inputSchema: z.object({ query: z.string() }),
  outputSchema: z.object({ results: z.array(z.string()) }),
})

export const imageTool = toolDefinition({
  name: 'generateImage',
  description: 'Generate an image',
  inputSchema: z.object({ prompt: z.string() }),
  outputSchema: z.object({ jobId: z.string(), status: z.literal('queued') }),
})

export function callRow(changes: Partial<CallRow> = {}): CallRow {
  return {
    id: next('call'),
    requestId: 'request',
    name: 'searchDatabase',
    args: { query: 'rows' },
    status: 'pending',
    result: null,
    error: null,
    ...changes,
  }
}

export function requestRow(changes: Partial<RequestRow> = {}): RequestRow {
  return { id: next('request'), prompt: 'Why?', status: 'pending', response: null, ...changes }
}

export const chunkRow = (chunk: StreamChunk, index: number, generationId: string): ChunkRow => ({
  id: `${generationId}-${index}`,
  generationId,
  index,
  type: mapChunkType(chunk.type),
  content: 'delta' in chunk && typeof chunk.delta === 'string' ? chunk.delta : '',
  isFinal: false,
})

export const finalRow = (index: number, generationId: string): ChunkRow => ({
  id: `${generationId}-${index}`,
  generationId,
  index,
  type: 'text',
  content: '',
  isFinal: true,
})
