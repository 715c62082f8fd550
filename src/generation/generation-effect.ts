/**
 * Runs a generation for each row of a query that asks for one: whoever inserted it, in this process or another.
 * The host's `generate` calls the model (`chat()` with durable tools, `durableChat()`, anything) and moves the
 * row to 'generating'; its result is what `onComplete` writes.
 *
 * A row is run once by this effect, however often the query says it entered. That no *other* consumer runs it is
 * what `claim` is for: without one, this effect must be the only consumer of its rows.
 *
 * It is stopped (its signal aborts, `onCancelled` is told) when its row is cancelled or deleted, and when the
 * effect is disposed. A `generate` that ignores its signal is left behind: its result is not written.
 *
 * Not this: `createWorker`, where the rows are the library's, a killed process is noticed and the next worker
 * goes on in mid-sentence.
 */
import type {
  Context,
  EffectQueryInput,
  GetResult,
  InitialQueryBuilder,
  QueryBuilder,
} from '@tanstack/db'
import type { GenerationContract } from '../contract/shapes.js'
import type { CancelReason } from '../contract/status.js'
import type { ClaimToolCall } from '../contract/tool-claims.js'
import { refuseUnknownOptions, requireNumber } from '../internal/options.js'
import { createRowEffect } from '../internal/row-effect.js'
import { sourcesOf } from '../internal/source-collections.js'
import { GenerationRun, type GenerationEffectParts } from './generation-run.js'

/** What `generate` gets beside its row. */
export interface GenerationContext {
  /** Aborts when the row is cancelled, deleted or lost, it takes too long, or the effect is disposed. */
  signal: AbortSignal
  /** Greater than 1: an earlier run began and did not report. Always 1 without a claim. */
  attempt: number
}

/** Who may run a row; the seam is that of tool calls. */
export type ClaimGeneration<TRow = GenerationContract> = ClaimToolCall<TRow>

type RowsAreGenerations<TContext extends Context> = [Context] extends [TContext]
  ? unknown
  : GetResult<TContext> extends GenerationContract
    ? unknown
    : { 'rows need { id, status }: map your fields with select()': never }

type GenerationQuery<TContext extends Context> =
  | ((q: InitialQueryBuilder) => QueryBuilder<TContext> & RowsAreGenerations<TContext>)
  | (QueryBuilder<TContext> & RowsAreGenerations<TContext>)

export interface GenerationEffectOptions<TContext extends Context, TResult> {
  /** The pending requests. No filter by `$synced` is needed: only confirmed rows are run. */
  query: GenerationQuery<TContext>
  /** Does the work. Its row leaves the query when its status changes; that does not stop it. */
  generate: (row: GetResult<TContext>, context: GenerationContext) => Promise<TResult> | TResult
  /** Writes the result; awaited, and a TanStack DB transaction it returns until it is persisted. */
  onComplete?: (row: GetResult<TContext>, result: Awaited<TResult>) => unknown
  /** @default its row is marked as cancelled, where the query is `from` one collection whose rows have a status */
  onCancelled?: (row: GetResult<TContext>, reason: CancelReason) => unknown
  /** `generate` threw or took too long (TIMEOUT). */
  onError?: (row: GetResult<TContext>, error: Error) => unknown
  /** Who may run a row, when there are several consumers. @default this effect is the only one */
  claim?: ClaimGeneration<GetResult<TContext>>
  /** Generations run at the same time. @default Infinity */
  concurrency?: number
  /** Longest run, in ms. @default none */
  timeout?: number
  /** What failed beside the generations: the source (it is started again), a claim (tried again), a callback. @default console.error */
  onEffectError?: (error: Error, row?: GetResult<TContext>) => void
}

export interface GenerationEffect {
  /**
   * Stops: what runs is aborted and awaited, then given back (with a claim that can) or cancelled.
   *
   * @param reason What the cancelled rows say. @default 'by-user'
   */
  dispose(reason?: CancelReason): Promise<void>
  readonly disposed: boolean
}

const WHAT = 'createGenerationEffect()'

const KNOWN = [
  'query',
  'generate',
  'onComplete',
  'onCancelled',
  'onError',
  'claim',
  'concurrency',
  'timeout',
  'onEffectError',
]

/** @throws AiDbError INVALID_OPTION, also for a query over another copy of @tanstack/db. */
export function createGenerationEffect<TContext extends Context, TResult>(
  options: GenerationEffectOptions<TContext, TResult>,
): GenerationEffect {
  const parts = resolved(options as unknown as GenerationEffectOptions<Context, unknown>)
  let reason: CancelReason = 'by-user'
  const effect = createRowEffect<TContext, GenerationContract>({
    what: WHAT,
    query: options.query as EffectQueryInput<TContext>,
    once: parts.claim === undefined,
    concurrency: options.concurrency ?? Infinity,
    run: (row, context) => new GenerationRun(parts, row, context, () => reason).run(),
    onError: parts.onEffectError,
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
function resolved(options: GenerationEffectOptions<Context, unknown>): GenerationEffectParts {
  refuseUnknownOptions(WHAT, options, KNOWN)
  const { concurrency = Infinity, timeout = Infinity } = options
  if (concurrency !== Infinity) requireNumber(WHAT, 'concurrency', concurrency, 1)
  if (timeout !== Infinity) requireNumber(WHAT, 'timeout', timeout)
  const sources = sourcesOf(WHAT, options.query as EffectQueryInput<Context>)
  return {
    ...(options as unknown as Omit<GenerationEffectParts, 'source'>),
    source:
      sources.length === 1
        ? (sources[0] as unknown as NonNullable<GenerationEffectParts['source']>)
        : undefined,
    timeout,
    // eslint-disable-next-line no-console -- as TanStack DB's own effects do when nobody listens
    onEffectError: options.onEffectError ?? ((error) => console.error(error)),
  }
}
