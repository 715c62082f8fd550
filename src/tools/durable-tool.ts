/**
 * A tool of TanStack AI whose every call is a row: inserted, then waited for until whoever executes it has
 * settled it. `chat()` runs its loop as ever; only what the tool's function does is elsewhere.
 *
 * The row's key comes from the provider's tool call id, so a run that is resumed finds its row and does not
 * ask again. The insert is awaited until it is persisted: a call that was never stored fails at once.
 *
 * Several calls of one turn wait side by side with `parallelToolCalls()`; `chat()` alone takes them one after
 * another (docs/decisions/0010-durable-tools.md).
 */
import type { InferToolInput, InferToolOutput } from '@tanstack/ai'
import type { Collection, UtilsRecord } from '@tanstack/db'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { AnyTool, ToolCallOf, ToolCallOfAny } from './any-tool.js'
import { DurableCalls, type DurableCallsOptions, type DurableToolContext } from './durable-calls.js'
import type { KeepsLiterals } from './keeps-literals.js'

/** Tool `T`, its function replaced by a row and a wait. */
export type DurableTool<T extends AnyTool> = Omit<
  T,
  'execute' | 'server' | 'client' | '__toolSide'
> & {
  name: T['name']
  __toolSide: 'server'
  execute(args: InferToolInput<T>, context?: DurableToolContext): Promise<InferToolOutput<T>>
}

export type DurableTools<TTools extends readonly AnyTool[]> = {
  -readonly [Index in keyof TTools]: DurableTool<TTools[Index]>
}

export interface DurableToolOptions<
  TRow extends object,
  TCall,
  TResult,
  TInsert extends object = TRow,
> extends DurableCallsOptions<TRow> {
  /** The call as a row of your schema. Its key should be `toolCall.id`. */
  transform: (toolCall: TCall, generationId?: string) => TInsert | KeepsLiterals
  /** Is the row settled? */
  isComplete: (row: TRow) => boolean
  /** The result of a settled row; throw, or reject, if it failed. */
  getResult: (row: TRow) => TResult | Promise<TResult> | KeepsLiterals
  /** Stores the row, where the collection cannot by itself. @default `collection.insert(row)` */
  insert?: (row: TInsert) => unknown
}

/** Makes one tool durable. */
export function makeDurableTool<
  T extends AnyTool,
  TRow extends object,
  TKey extends string | number,
  TUtils extends UtilsRecord,
  TSchema extends StandardSchemaV1,
  TInsert extends object,
>(
  tool: T,
  collection: Collection<TRow, TKey, TUtils, TSchema, TInsert>,
  options: DurableToolOptions<TRow, ToolCallOf<T>, InferToolOutput<T>, TInsert>,
): DurableTool<T> {
  return durable('makeDurableTool()', tool, collection, options)
}

/** Makes several tools durable, in the same collection and by the same rules. */
export function makeDurableTools<
  const TTools extends readonly AnyTool[],
  TRow extends object,
  TKey extends string | number,
  TUtils extends UtilsRecord,
  TSchema extends StandardSchemaV1,
  TInsert extends object,
>(
  tools: TTools,
  collection: Collection<TRow, TKey, TUtils, TSchema, TInsert>,
  options: DurableToolOptions<TRow, ToolCallOfAny<TTools>, unknown, TInsert>,
): DurableTools<TTools> {
  const made = tools.map((tool) => durable('makeDurableTools()', tool, collection, options))
  return made as unknown as DurableTools<TTools>
}

const callsOf = new WeakMap<object, DurableCalls>()

/** The calls of a durable tool, for what starts them ahead of its function. */
export function durableCallsOf(tool: object): DurableCalls | undefined {
  return callsOf.get(tool)
}

function durable<T extends AnyTool>(
  what: string,
  tool: T,
  collection: unknown,
  options: unknown,
): DurableTool<T> {
  const calls = new DurableCalls(what, tool, collection, options, ['isComplete', 'getResult'])
  const { execute: _execute, ...definition } = tool as T & { execute?: unknown }
  const made = {
    ...definition,
    __toolSide: 'server' as const,
    execute: (args: unknown, context: DurableToolContext = {}) => calls.execute(args, context),
  }
  callsOf.set(made, calls)
  return made as unknown as DurableTool<T>
}
