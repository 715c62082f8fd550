/**
 * Executes pending tool calls: the rows of a query, whoever inserted them, in this process or another.
 *
 * A row is executed once by this effect, however often the query says it entered. That no *other* consumer
 * executes it is what `claim` is for: without one, this effect must be its tools' only consumer.
 *
 * A call: claim → `onExecuting` → arguments checked → the implementation → result checked → settle
 * (by the claim, if it does that) → `onComplete` or `onError`. Each callback is awaited; a TanStack DB
 * transaction it returns, until it is persisted.
 *
 * Not promised: that a side effect whose process died before its result was stored happens once. `toolCallId`
 * is the idempotency key, and an `attempt` above 1 says that there was an earlier one.
 */
import type { InferToolInput, InferToolOutput } from '@tanstack/ai'
import type {
  Context,
  EffectQueryInput,
  GetResult,
  InitialQueryBuilder,
  QueryBuilder,
} from '@tanstack/db'
import type { ToolCallContract } from '../contract/shapes.js'
import type { CancelReason } from '../contract/status.js'
import type { ClaimToolCall } from '../contract/tool-claims.js'
import { AiDbError } from '../errors.js'
import { refuseUnknownOptions, requireNumber, requireWord } from '../internal/options.js'
import { createRowEffect } from '../internal/row-effect.js'
import type { WatchableCollection } from '../internal/row-watch.js'
import { requireOwnCopy, sourcesOf } from '../internal/source-collections.js'
import type { AnyTool, ToolResultOfAny } from './any-tool.js'
import { ToolCallRun, type CallEffect } from './tool-call-run.js'

/** What an implementation gets beside its arguments. */
export interface ToolExecutionContext<TRow = ToolCallContract> {
  /** Aborts when the call is cancelled, takes too long, is lost, or the effect is disposed. */
  signal: AbortSignal
  /** The tool's idempotency key: the same for every attempt. */
  toolCallId: string
  /** Greater than 1: an earlier execution began and did not report. Always 1 without a claim. */
  attempt: number
  row: TRow
}

/**
 * One function for each tool, by its name.
 *
 * Keyed by the names, not by the tools with `as` as the RFC has it: through a renamed key TypeScript types no
 * parameter, and every `args` would have to be annotated.
 */
export type ToolImplementations<TTools extends readonly AnyTool[], TRow = ToolCallContract> = {
  [Name in TTools[number]['name']]: ToolImplementation<
    Extract<TTools[number], { name: Name }>,
    TRow
  >
}

export type ToolImplementation<T extends AnyTool, TRow = ToolCallContract> = (
  args: InferToolInput<T>,
  context: ToolExecutionContext<TRow>,
) => Promise<InferToolOutput<T>> | InferToolOutput<T>

/** What callbacks are told beside the row. */
export interface ToolCallInfo {
  attempt: number
  /** The result came after the parent generation was cancelled (`lateResult: 'store'`). */
  late: boolean
}

/** A generation's row, as far as late results go. */
export interface GenerationCollection extends WatchableCollection {
  get(id: string): { status: string } | undefined
}

/**
 * A row of the query. Of a query that is not known yet it is `never`, which every callback takes: TypeScript
 * looks at annotated callbacks before it has inferred the query, and would refuse them.
 */
type RowOf<TContext extends Context> = [Context] extends [TContext] ? never : GetResult<TContext>

/** The rows must have the shape of a tool call; a `select` maps other fields to it. */
type RowsAreToolCalls<TContext extends Context> =
  RowOf<TContext> extends ToolCallContract
    ? unknown
    : { 'rows need { id, status, name, args }: map your fields with select()': never }

type ToolCallQuery<TContext extends Context> =
  | ((q: InitialQueryBuilder) => QueryBuilder<TContext> & RowsAreToolCalls<TContext>)
  | (QueryBuilder<TContext> & RowsAreToolCalls<TContext>)

export interface ToolExecutionEffectOptions<
  TTools extends readonly AnyTool[],
  TContext extends Context,
> {
  /** The pending calls. No filter by `$synced` is needed: only confirmed rows are executed. */
  query: ToolCallQuery<TContext>
  /** Definitions of the tools that are executed here. */
  tools: TTools
  implementations: ToolImplementations<TTools, RowOf<TContext>>
  /** Before the implementation; what it throws ends the call as failed (FENCED: without a sound). */
  onExecuting?: (row: RowOf<TContext>, info: ToolCallInfo) => unknown
  onComplete?: (
    row: RowOf<TContext>,
    result: ToolResultOfAny<TTools>,
    info: ToolCallInfo,
  ) => unknown
  /** The tool threw or took too long (TIMEOUT), is unknown, or arguments or result do not fit (TOOL_FAILED). */
  onError?: (row: RowOf<TContext>, error: Error, info: ToolCallInfo) => unknown
  /** @default its row is marked as cancelled, where the query is `from` one collection whose rows have a status */
  onCancelled?: (row: RowOf<TContext>, reason: CancelReason, info: ToolCallInfo) => unknown
  /** Who may execute a row, when there are several consumers. @default this effect is the only one */
  claim?: ClaimToolCall<RowOf<TContext>>
  /** Calls executed at the same time. A tool that waits for other calls of this effect needs a slot beside theirs. @default Infinity */
  concurrency?: number
  /** Longest execution of one call, in ms. @default none */
  timeout?: number
  /** The parents of the calls: a cancelled one stops its calls, and decides about late results. */
  generations?: GenerationCollection
  /** The id of a row's parent. @default row.generationId */
  generationId?: (row: RowOf<TContext>) => string | null | undefined
  /** A result that comes after its generation was cancelled. @default 'discard' */
  lateResult?: 'discard' | 'store'
  /** A row whose tool is not among `tools`. @default 'fail', and 'ignore' with a claim: others may have it */
  unknownTool?: 'fail' | 'ignore'
  /** What failed beside the calls: the source (it is started again), a claim (tried again), a callback. @default console.error */
  onEffectError?: (error: Error, row?: RowOf<TContext>) => void
}

export interface ToolExecutionEffect {
  /**
   * Stops: what runs is aborted and awaited, then given back (with a claim that can) or cancelled.
   *
   * @param reason What the cancelled rows say. @default 'by-user'
   */
  dispose(reason?: CancelReason): Promise<void>
  readonly disposed: boolean
}

const WHAT = 'createToolExecutionEffect()'

const KNOWN = [
  'query',
  'tools',
  'implementations',
  'onExecuting',
  'onComplete',
  'onError',
  'onCancelled',
  'claim',
  'concurrency',
  'timeout',
  'generations',
  'generationId',
  'lateResult',
  'unknownTool',
  'onEffectError',
]

/** @throws AiDbError INVALID_OPTION, also for a query over another copy of @tanstack/db. */
export function createToolExecutionEffect<
  const TTools extends readonly AnyTool[],
  TContext extends Context,
>(options: ToolExecutionEffectOptions<TTools, TContext>): ToolExecutionEffect {
  const call = resolved(
    options as unknown as ToolExecutionEffectOptions<readonly AnyTool[], Context>,
  )
  const query = options.query as EffectQueryInput<TContext>
  let reason: CancelReason = 'by-user'
  const effect = createRowEffect<TContext, ToolCallContract>({
    what: WHAT,
    query,
    once: call.claim === undefined,
    concurrency: options.concurrency ?? Infinity,
    run: (row, context) => new ToolCallRun(call, row, context, () => reason).run(),
    onError: call.onEffectError,
  })
  return {
    dispose(given = 'by-user') {
      if (!effect.disposed) reason = given
      return effect.dispose()
    },
    get disposed() {
      return effect.disposed
    },
  }
}

/** Options with their types erased: they were checked where the effect was made. */
function resolved(options: ToolExecutionEffectOptions<readonly AnyTool[], Context>): CallEffect {
  refuseUnknownOptions(WHAT, options, KNOWN)
  const { concurrency = Infinity, timeout = Infinity, lateResult = 'discard' } = options
  if (concurrency !== Infinity) requireNumber(WHAT, 'concurrency', concurrency, 1)
  if (timeout !== Infinity) requireNumber(WHAT, 'timeout', timeout)
  requireWord(WHAT, 'lateResult', lateResult, ['discard', 'store'])
  const unknownTool = options.unknownTool ?? (options.claim ? 'ignore' : 'fail')
  requireWord(WHAT, 'unknownTool', unknownTool, ['fail', 'ignore'])
  if (options.generations) requireOwnCopy(WHAT, 'generations', options.generations)
  const sources = sourcesOf(WHAT, options.query as EffectQueryInput<Context>)
  return {
    ...(options as unknown as Omit<CallEffect, 'tools' | 'source' | 'implementations'>),
    tools: toolsByName(options.tools),
    implementations: implementationsOf(options),
    source: sources.length === 1 ? (sources[0] as CallEffect['source']) : undefined,
    timeout,
    lateResult,
    unknownTool,
    onEffectError: (options.onEffectError as CallEffect['onEffectError'] | undefined) ?? logged,
  }
}

function toolsByName(tools: readonly AnyTool[]): Map<string, AnyTool> {
  const byName = new Map<string, AnyTool>()
  for (const tool of tools ?? []) {
    if (byName.has(tool.name)) throw invalid('tools', `has '${tool.name}' twice. Names are unique.`)
    byName.set(tool.name, tool)
  }
  if (byName.size === 0) throw invalid('tools', 'is empty. Give the definitions of the tools.')
  return byName
}

function implementationsOf({
  tools,
  implementations,
}: ToolExecutionEffectOptions<readonly AnyTool[], Context>): CallEffect['implementations'] {
  const given = (implementations ?? {}) as CallEffect['implementations']
  for (const { name } of tools) {
    if (typeof given[name] !== 'function')
      throw invalid(`implementations.${name}`, 'must be a function: the tool is in tools.')
  }
  return given
}

const invalid = (field: string, problem: string) =>
  new AiDbError('INVALID_OPTION', `${WHAT}: ${field} ${problem}`, { field })

// eslint-disable-next-line no-console -- as TanStack DB's own effects do when nobody listens
const logged = (error: Error) => console.error(error)
