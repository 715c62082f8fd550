/**
 * `chat()`, durable tools and chunk rows in one call, for the common case. Each part is there alone:
 * `makeDurableTools`, `parallelToolCalls`, `streamToCollection`.
 */
import { chat } from '@tanstack/ai'
import type { AnyTextAdapter, ChatMiddleware, ModelMessage, StreamChunk } from '@tanstack/ai'
import type { Collection, UtilsRecord } from '@tanstack/db'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { AiDbError } from '../errors.js'
import type { AnyTool, ToolCallOfAny } from '../tools/any-tool.js'
import { makeDurableTools, type DurableToolOptions } from '../tools/durable-tool.js'
import type { ChunkContract } from '../contract/shapes.js'
import { parallelToolCalls } from '../tools/parallel-tool-calls.js'
import { streamToCollection, type ChunkOptions } from './stream-to-collection.js'

export interface DurableChatOptions<
  TTools extends readonly AnyTool[],
  TToolRow extends object,
  TToolInsert extends object,
  TChunkRow extends ChunkContract,
  TChunkInsert extends object,
  TToolKey extends string | number = string,
  TChunkKey extends string | number = string,
> {
  adapter: AnyTextAdapter
  messages: ModelMessage[]
  systemPrompts?: string[]
  /** Definitions; with `toolCalls` each call of them is a row, without they are given to `chat()` as they are. */
  tools?: TTools
  /** Where calls become rows, and how; as `makeDurableTools` takes it. */
  toolCalls?: DurableToolOptions<TToolRow, ToolCallOfAny<TTools>, unknown, TToolInsert> & {
    collection: AnyCollection<TToolRow, TToolKey, TToolInsert>
  }
  /** Where chunks become rows, and how; as `streamToCollection` takes it. */
  chunks?: Omit<ChunkOptions<TChunkInsert>, 'signal'> & {
    collection: AnyCollection<TChunkRow, TChunkKey, TChunkInsert>
  }
  /** Cancels the model's stream and the wait for tools. */
  abortController?: AbortController
  middleware?: readonly ChatMiddleware[]
  modelOptions?: Record<string, unknown>
}

/** A collection with or without a schema of its own. */
type AnyCollection<
  TRow extends object,
  TKey extends string | number,
  TInsert extends object,
> = Collection<TRow, TKey, UtilsRecord, StandardSchemaV1, TInsert>

/**
 * One durable turn, tools included.
 *
 * @returns the text of it.
 * @throws AiDbError PROVIDER_FAILED, CANCELLED; what a collection refused a row with.
 */
export async function durableChat<
  const TTools extends readonly AnyTool[],
  TToolRow extends object,
  TToolInsert extends object,
  TChunkRow extends ChunkContract,
  TChunkInsert extends object,
  TToolKey extends string | number,
  TChunkKey extends string | number,
>(
  options: DurableChatOptions<
    TTools,
    TToolRow,
    TToolInsert,
    TChunkRow,
    TChunkInsert,
    TToolKey,
    TChunkKey
  >,
): Promise<{ content: string }> {
  const { tools: given, toolCalls, chunks, middleware = [], modelOptions, ...rest } = options
  const tools = given && toolCalls ? durable(given, toolCalls) : given
  const abortController = options.abortController ?? new AbortController()
  const stream = chat({
    ...rest,
    abortController,
    ...(modelOptions && { modelOptions: modelOptions as never }),
    // chat() types its tools and middleware by the interrupts they declare; there are none.
    tools: [...(tools ?? [])] as never,
    middleware: [parallelToolCalls(tools ?? []), ...middleware] as never,
  }) as AsyncIterable<StreamChunk>
  const { signal } = abortController
  if (chunks) {
    const { content } = await streamToCollection(stream, { ...chunks, signal } as never)
    return { content }
  }
  return { content: await textOf(stream, signal) }
}

function durable(tools: readonly AnyTool[], toolCalls: object): readonly AnyTool[] {
  const { collection, ...options } = toolCalls as { collection: unknown }
  return makeDurableTools(tools, collection as never, options as never)
}

async function textOf(stream: AsyncIterable<StreamChunk>, signal: AbortSignal): Promise<string> {
  let content = ''
  for await (const chunk of stream) {
    if (chunk.type === 'TEXT_MESSAGE_CONTENT') content += chunk.delta
    if (chunk.type === 'RUN_ERROR') {
      const cure = "Check the adapter's key, model and limits."
      throw new AiDbError('PROVIDER_FAILED', `The model provider failed: ${chunk.message}. ${cure}`)
    }
  }
  if (signal.aborted) {
    throw new AiDbError('CANCELLED', 'The chat was cancelled.', { cause: signal.reason })
  }
  return content
}
