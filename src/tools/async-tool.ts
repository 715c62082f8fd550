/**
 * A tool that answers at once and works on: its call is a row like a durable tool's, executed by the same
 * effect, but nobody waits for it. The model is told a job's id.
 *
 * How the model hears of the end is the host's choice:
 * 1. a message put into the conversation by the effect's `onComplete`,
 * 2. a tool to ask with (`makeJobStatusTool`),
 * 3. the result in the place of the immediate one, from the next turn on (`withJobResults`).
 */
import type { InferToolInput, InferToolOutput } from '@tanstack/ai'
import type { Collection, UtilsRecord } from '@tanstack/db'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { raceAbort } from '../internal/abort.js'
import type { AnyTool, ToolCallOf } from './any-tool.js'
import { DurableCalls, type DurableToolContext } from './durable-calls.js'
import type { DurableTool, DurableToolOptions } from './durable-tool.js'
import type { KeepsLiterals } from './keeps-literals.js'

export interface AsyncToolOptions<
  TRow extends object,
  TCall,
  TResult,
  TInsert extends object = TRow,
> extends Pick<
  DurableToolOptions<TRow, TCall, TResult, TInsert>,
  'transform' | 'generationId' | 'insert'
> {
  /** What the model is told at once, of the row as it was stored. */
  getImmediateResult: (row: TRow) => TResult | Promise<TResult> | KeepsLiterals
}

/** Makes a tool asynchronous. Its `outputSchema` is that of the immediate result. */
export function makeAsyncTool<
  T extends AnyTool,
  TRow extends object,
  TKey extends string | number,
  TUtils extends UtilsRecord,
  TSchema extends StandardSchemaV1,
  TInsert extends object,
>(
  tool: T,
  collection: Collection<TRow, TKey, TUtils, TSchema, TInsert>,
  options: AsyncToolOptions<TRow, ToolCallOf<T>, InferToolOutput<T>, TInsert>,
): DurableTool<T> {
  const calls = new DurableCalls('makeAsyncTool()', tool, collection, options, [
    'getImmediateResult',
  ])
  const { execute: _execute, ...definition } = tool as T & { execute?: unknown }
  const execute = async (args: InferToolInput<T>, context: DurableToolContext = {}) => {
    const begun = calls.begin(args, context)
    const row = await (context.abortSignal ? raceAbort(begun, context.abortSignal) : begun)
    const stored = collection.get(collection.getKeyFromItem(row as TRow)) ?? (row as TRow)
    return options.getImmediateResult(stored)
  }
  return { ...definition, __toolSide: 'server', execute } as unknown as DurableTool<T>
}
