/**
 * One execution of one tool call, from its claim to the callback that is told of its end. The steps are those
 * of `createToolExecutionEffect`; the types of the host's rows and tools are erased here.
 */
import type { CancelReason } from '../contract/status.js'
import { requireShape, type ToolCallContract } from '../contract/shapes.js'
import type { ClaimToolCall, ToolClaim } from '../contract/tool-claims.js'
import { AiDbError, FencedError, toError } from '../errors.js'
import { raceAbort } from '../internal/abort.js'
import { persisted } from '../internal/persisted.js'
import type { RowContext, RowVerdict } from '../internal/row-effect.js'
import { watchRow, type WatchableCollection } from '../internal/row-watch.js'
import type { AnyTool } from './any-tool.js'
import { CallStop, type Stop } from './call-stop.js'
import { cancelReasonOf, cancelRow, type UpdatableCollection } from './cancel-row.js'
import { checkedBySchema } from './tool-schema.js'

type Row = ToolCallContract

interface Info {
  attempt: number
  late: boolean
}

/** The effect's options, resolved. */
export interface CallEffect {
  tools: ReadonlyMap<string, AnyTool>
  implementations: Readonly<Record<string, (args: unknown, context: object) => unknown>>
  /** The collection the query is from, if it is from one. */
  source: (UpdatableCollection & WatchableCollection) | undefined
  claim?: ClaimToolCall<Row>
  timeout: number
  generations?: WatchableCollection & { get(id: string): { status: string } | undefined }
  generationId?: (row: Row) => string | null | undefined
  lateResult: 'discard' | 'store'
  unknownTool: 'fail' | 'ignore'
  onExecuting?: (row: Row, info: Info) => unknown
  onComplete?: (row: Row, result: unknown, info: Info) => unknown
  onError?: (row: Row, error: Error, info: Info) => unknown
  onCancelled?: (row: Row, reason: CancelReason, info: Info) => unknown
  onEffectError: (error: Error, row?: Row) => void
}

type Outcome =
  | { kind: 'completed'; result: unknown; late: boolean }
  | { kind: 'failed'; error: Error }
  | Exclude<Stop, { kind: 'timeout' }>

export class ToolCallRun {
  readonly #effect: CallEffect
  readonly #row: Row
  readonly #context: RowContext
  readonly #disposeReason: () => CancelReason
  readonly #stop = new CallStop()
  #claim: ToolClaim = { attempt: 1 }
  #began = false

  constructor(
    effect: CallEffect,
    row: Row,
    context: RowContext,
    disposeReason: () => CancelReason,
  ) {
    this.#effect = effect
    this.#row = row
    this.#context = context
    this.#disposeReason = disposeReason
  }

  async run(): Promise<RowVerdict> {
    const { claim, tools, unknownTool } = this.#effect
    requireShape('createToolExecutionEffect()', 'tool call', this.#row)
    if (!tools.has(this.#row.name) && unknownTool === 'ignore') return 'passed'
    if (claim) {
      const claimed = await this.#claimed(claim)
      if (typeof claimed === 'string') return claimed
      this.#claim = claimed
    }
    try {
      await this.#report(await this.#outcome())
    } finally {
      this.#stop.end()
    }
    return 'done'
  }

  async #claimed(claim: ClaimToolCall<Row>): Promise<ToolClaim | RowVerdict> {
    try {
      const claimed = await claim(this.#row)
      return claimed === 'later' ? 'retry' : claimed || 'passed'
    } catch (thrown) {
      this.#effect.onEffectError(toError(thrown), this.#row)
      return 'retry'
    }
  }

  async #outcome(): Promise<Outcome> {
    this.#listen()
    const cancelled = this.#stop.reason
    if (cancelled && cancelled.kind !== 'timeout') return cancelled
    let work: Promise<unknown> | undefined
    try {
      const tool = this.#tool()
      this.#began = true
      await persisted(this.#effect.onExecuting?.(this.#row, this.#info()))
      this.#stop.soft.throwIfAborted()
      this.#stop.after(this.#effect.timeout, tool.name)
      work = this.#execute(tool)
      return this.#completed(await raceAbort(work, this.#stop.soft))
    } catch (thrown) {
      return this.#stopped(toError(thrown), work)
    }
  }

  /** Everything that may stop this call, listened to until it ends. */
  #listen(): void {
    const { source, generations } = this.#effect
    const { key, signal } = this.#context
    this.#stop.onAbort(signal, () => ({ kind: 'disposed', reason: this.#disposeReason() }))
    this.#stop.onAbort(this.#claim.signal, () => ({ kind: 'lost' }))
    const parent = this.#parentId()
    if (source) this.#watch(source, key, () => source.get(key), false)
    if (generations && parent !== undefined)
      this.#watch(generations, parent, () => generations.get(parent), true)
  }

  #watch(
    collection: WatchableCollection,
    key: string | number,
    read: () => object | undefined,
    parent: boolean,
  ): void {
    const look = () => {
      const row = collection.status === 'error' ? undefined : read()
      if ((row as { status?: unknown } | undefined)?.status !== 'cancelled') return
      this.#stop.stop({ kind: 'cancelled', reason: cancelReasonOf(row!), parent })
    }
    this.#stop.onEnd(watchRow(collection, key, look))
    look()
  }

  #parentId(): string | undefined {
    const { generationId } = this.#effect
    const id = generationId
      ? generationId(this.#row)
      : (this.#row as { generationId?: unknown }).generationId
    return typeof id === 'string' ? id : undefined
  }

  #tool(): AnyTool {
    const tool = this.#effect.tools.get(this.#row.name)
    if (tool) return tool
    throw new AiDbError('TOOL_FAILED', `Unknown tool: ${this.#row.name}`, { field: 'name' })
  }

  async #execute(tool: AnyTool): Promise<unknown> {
    const args = await checkedBySchema(
      tool.inputSchema,
      this.#row.args,
      `arguments of ${tool.name}`,
    )
    const value = await this.#effect.implementations[tool.name]!(args, {
      signal: this.#stop.soft,
      toolCallId: this.#row.id,
      attempt: this.#claim.attempt,
      row: this.#row,
    })
    return checkedBySchema(tool.outputSchema, value, `result of ${tool.name}`)
  }

  /** A result; a late one if the parent was cancelled and nobody has said so yet. */
  #completed(result: unknown): Outcome {
    const stop = this.#stop.reason
    const late = stop?.kind === 'cancelled' && stop.parent
    if (late && this.#effect.lateResult === 'discard') return stop
    return { kind: 'completed', result, late }
  }

  /** The wait for the tool ended otherwise: it failed, or was stopped. */
  async #stopped(error: Error, work: Promise<unknown> | undefined): Promise<Outcome> {
    const stop = this.#stop.reason
    if (!stop) return { kind: 'failed', error }
    if (stop.kind === 'timeout') return { kind: 'failed', error: stop.error }
    const mayCome = stop.kind === 'cancelled' && stop.parent && this.#effect.lateResult === 'store'
    if (!mayCome || !work) return stop
    try {
      return this.#completed(await raceAbort(work, this.#stop.hard))
    } catch {
      const last = this.#stop.reason
      return last && last.kind !== 'timeout' ? last : stop
    }
  }

  async #report(outcome: Outcome): Promise<void> {
    try {
      if (outcome.kind === 'completed') await this.#complete(outcome.result, outcome.late)
      else if (outcome.kind === 'failed') await this.#fail(outcome.error)
      else if (outcome.kind === 'cancelled') await this.#cancel(outcome.reason)
      else if (outcome.kind === 'disposed') await this.#giveBack(outcome.reason)
    } catch (thrown) {
      if (!isFenced(thrown)) this.#effect.onEffectError(toError(thrown), this.#row)
    }
  }

  async #complete(result: unknown, late: boolean): Promise<void> {
    const { onComplete, onError } = this.#effect
    await this.#claim.settle?.({ status: 'completed', result })
    try {
      await persisted(onComplete?.(this.#row, result, this.#info(late)))
    } catch (thrown) {
      // Settled, the row is as it should be. Otherwise the result is lost, and nothing else will end this row.
      if (isFenced(thrown) || this.#claim.settle || !onError) throw thrown
      await persisted(onError(this.#row, toError(thrown), this.#info(late)))
    }
  }

  async #fail(error: Error): Promise<void> {
    if (isFenced(error)) return
    const told = error.message || `${this.#row.name} failed without a message`
    await this.#claim.settle?.({ status: 'failed', error: told })
    await persisted(this.#effect.onError?.(this.#row, error, this.#info()))
  }

  /** With a claim that settles, the row was cancelled where it was claimed. */
  async #cancel(reason: CancelReason): Promise<void> {
    const { onCancelled, source } = this.#effect
    if (source?.get(this.#context.key)?.status === 'cancelled') return
    if (onCancelled) await persisted(onCancelled(this.#row, reason, this.#info()))
    else if (source && !this.#claim.settle) await cancelRow(source, this.#context.key, reason)
  }

  async #giveBack(reason: CancelReason): Promise<void> {
    if (this.#claim.release) await this.#claim.release()
    // What has not begun stays pending, for the next one.
    else if (this.#began) await this.#cancel(reason)
  }

  #info(late = false): Info {
    return { attempt: this.#claim.attempt, late }
  }
}

const isFenced = (thrown: unknown) =>
  thrown instanceof FencedError || (thrown instanceof AiDbError && thrown.code === 'FENCED')
