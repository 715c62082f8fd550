/**
 * The calls of one durable tool: begun (the row is inserted, or found), then waited for, and abandoned by a
 * policy when nobody waits any more.
 *
 * A call may be begun before its function is called (`parallelToolCalls`); then the function joins it.
 */
import type { CancelReason } from '../contract/status.js'
import { AiDbError } from '../errors.js'
import { raceAbort } from '../internal/abort.js'
import { refuseUnknownOptions, requireNumber, requireWord } from '../internal/options.js'
import { persisted } from '../internal/persisted.js'
import { clearFailedSource, requireOwnCopy } from '../internal/source-collections.js'
import type { AnyTool } from './any-tool.js'
import { cancelRow } from './cancel-row.js'
import { sameJson } from './same-json.js'
import { tookTooLong, waitForToolResult, type ReadableCollection } from './tool-result.js'

/** What `chat()` hands a tool's function. */
export interface DurableToolContext {
  toolCallId?: string | undefined
  abortSignal?: AbortSignal | undefined
  /** `chat({ context })`; its `generationId`, if it has one, is what `transform` gets. */
  context?: unknown
}

/** The row as a draft of `collection.update`, of which only the contract's fields are known. */
type Row = Record<string, unknown>
type Key = string | number

/** The options of every durable tool, the row's type left open. */
export interface DurableCallsOptions<TRow extends object> {
  /** Longest wait for one call, in ms, from its beginning. @default none */
  timeout?: number
  /** What becomes of the row when the time is up. `keep`: it stays claimable, for whoever resumes. @default 'cancel' */
  onTimeout?: 'cancel' | 'keep'
  /** What becomes of the row when the run is aborted. @default 'cancel' */
  onAbort?: 'cancel' | 'keep'
  /** Marks an unsettled row as cancelled. @default status: 'cancelled', and `cancelReason` where the row has one */
  cancel?: (row: TRow, reason: CancelReason) => unknown
  /** The generation the calls belong to: its id, or how to tell from `chat()`'s context. @default `context.generationId` */
  generationId?: string | ((context: DurableToolContext) => string | undefined)
}

/** As given, every type of the host's erased: they were checked where the tool was made. */
interface GivenOptions extends DurableCallsOptions<Row> {
  transform: (toolCall: unknown, generationId?: string) => Row
  isComplete?: (row: Row) => boolean
  getResult?: (row: Row) => unknown
  insert?: (row: Row) => unknown
}

interface WritableCollection extends ReadableCollection<Row, Key> {
  getKeyFromItem(row: Row): Key
  stateWhenReady(): Promise<unknown>
  insert(row: Row): unknown
  update(key: Key, change: (draft: Row) => void): unknown
}

export const KNOWN_OPTIONS = [
  'transform',
  'timeout',
  'onTimeout',
  'onAbort',
  'cancel',
  'generationId',
  'insert',
]

export class DurableCalls {
  readonly tool: AnyTool
  readonly #collection: WritableCollection
  readonly #options: GivenOptions
  /** Begun ahead and not yet joined, by tool call id. */
  readonly #ahead = new Map<string, { args: unknown; begun: Promise<Row> }>()

  constructor(what: string, tool: AnyTool, collection: unknown, options: unknown, more: string[]) {
    requireOwnCopy(what, 'collection', collection)
    this.tool = tool
    this.#collection = collection as WritableCollection
    this.#options = resolved(what, options as GivenOptions, more)
  }

  /** Begins the call and waits for its result. Never outlives the signal or the time it has. */
  async execute(args: unknown, context: DurableToolContext): Promise<unknown> {
    const toolCallId = context.toolCallId ?? crypto.randomUUID()
    const { signal, end } = this.#limited(toolCallId, context.abortSignal)
    const begun = this.begin(args, { ...context, toolCallId })
    try {
      return await this.#result(await raceAbort(begun, signal), signal)
    } catch (error) {
      await this.#abandon(begun, error, context.abortSignal)
      throw error
    } finally {
      end()
    }
  }

  /** Inserts the row, or finds it. @returns the row; resolves when it is persisted. */
  begin(args: unknown, context: DurableToolContext): Promise<Row> {
    const id = context.toolCallId ?? crypto.randomUUID()
    const ahead = this.#ahead.get(id)
    if (ahead) {
      this.#ahead.delete(id)
      if (sameJson(ahead.args, args)) return ahead.begun
    }
    return this.#begin({ id, name: this.tool.name, args }, this.#generationOf(context))
  }

  /** Begins the call before its function is called, which then joins it. */
  beginAhead(args: unknown, context: DurableToolContext & { toolCallId: string }): void {
    if (this.#ahead.has(context.toolCallId)) return
    const begun = this.begin(args, context)
    // Whoever joins it hears of its failure.
    begun.catch(() => undefined)
    this.#ahead.set(context.toolCallId, { args, begun })
  }

  /** The run is over: calls begun ahead that nobody joined are abandoned. */
  async dropAhead(toolCallId: string): Promise<void> {
    const ahead = this.#ahead.get(toolCallId)
    this.#ahead.delete(toolCallId)
    if (ahead && this.#options.onAbort !== 'keep') await this.#cancel(ahead.begun, 'by-user')
  }

  async #begin(call: { id: string; name: string; args: unknown }, generationId?: string) {
    const row = this.#options.transform(call, generationId)
    const key = this.#collection.getKeyFromItem(row)
    if (this.#collection.status === 'error') await clearFailedSource(this.#collection)
    await this.#collection.stateWhenReady()
    const existing = this.#collection.get(key)
    if (existing) refuseOtherCall(call.id, row, existing)
    else await persisted(this.#insert(row))
    return row
  }

  #insert(row: Row): unknown {
    const { insert } = this.#options
    return insert ? insert(row) : this.#collection.insert(row)
  }

  #generationOf(context: DurableToolContext): string | undefined {
    const { generationId } = this.#options
    if (typeof generationId === 'function') return generationId(context)
    if (generationId !== undefined) return generationId
    const given = (context.context as { generationId?: unknown } | undefined)?.generationId
    return typeof given === 'string' ? given : undefined
  }

  /** The caller's signal and the timeout as one. */
  #limited(id: string, outer: AbortSignal | undefined) {
    const { timeout } = this.#options
    const limit = new AbortController()
    const forward = () => limit.abort(outer?.reason)
    const expire = () => limit.abort(tookTooLong(id, timeout!))
    const timer = timeout === undefined ? undefined : setTimeout(expire, timeout)
    if (outer?.aborted) forward()
    else outer?.addEventListener('abort', forward, { once: true })
    const end = () => {
      clearTimeout(timer)
      outer?.removeEventListener('abort', forward)
    }
    return { signal: limit.signal, end }
  }

  #result(row: Row, signal: AbortSignal): Promise<unknown> {
    const { isComplete, getResult } = this.#options
    const key = this.#collection.getKeyFromItem(row)
    return waitForToolResult(this.#collection, key, isComplete!, getResult!, { signal })
  }

  /** The wait failed. Of an abort nothing is waited for: `chat()` must not hang on it. */
  async #abandon(begun: Promise<Row>, error: unknown, outer?: AbortSignal): Promise<void> {
    const { onAbort, onTimeout } = this.#options
    if (outer?.aborted) {
      const reason = isTimeout(outer.reason) ? 'by-timeout' : 'by-user'
      if (onAbort !== 'keep') void this.#cancel(begun, reason)
    } else if (isTimeout(error) && onTimeout !== 'keep') {
      const cancelled = this.#cancel(begun, 'by-timeout')
      await (outer ? raceAbort(cancelled, outer).catch(() => undefined) : cancelled)
    }
  }

  /** Never rejects: what could not be cancelled is found unsettled by whoever looks for such rows. */
  async #cancel(begun: Promise<Row>, reason: CancelReason): Promise<void> {
    try {
      const key = this.#collection.getKeyFromItem(await begun)
      const row = this.#collection.get(key)
      if (!row || row.status === 'cancelled' || this.#options.isComplete?.(row)) return
      const { cancel } = this.#options
      if (cancel) return await persisted(cancel(row, reason))
      await cancelRow(this.#collection, key, reason)
    } catch {
      // The run that is ending has an error of its own to tell.
    }
  }
}

const isTimeout = (thrown: unknown) => thrown instanceof AiDbError && thrown.code === 'TIMEOUT'

function resolved(what: string, options: GivenOptions, more: string[]): GivenOptions {
  refuseUnknownOptions(what, options, [...KNOWN_OPTIONS, ...more])
  for (const field of ['transform', ...more] as (keyof GivenOptions)[]) {
    if (typeof options[field] === 'function') continue
    throw new AiDbError('INVALID_OPTION', `${what}: ${field} must be a function.`, { field })
  }
  if (options.timeout !== undefined) requireNumber(what, 'timeout', options.timeout)
  for (const field of ['onTimeout', 'onAbort'] as const)
    if (options[field] !== undefined) requireWord(what, field, options[field], ['cancel', 'keep'])
  return options
}

/** A row with this key is there already: a resumed run's own, or, where ids repeat, another call's. */
function refuseOtherCall(id: string, row: Row, existing: Row): void {
  for (const field of ['name', 'args']) {
    if (!(field in row) || !(field in existing) || sameJson(row[field], existing[field])) continue
    throw new AiDbError(
      'DUPLICATE_ID',
      `Tool call ${id} is in the collection already, with another ${field}. If the provider repeats its ids, ` +
        'let transform make the key of the generation and the id together.',
      { field },
    )
  }
}
