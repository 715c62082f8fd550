/** One run of one generation request, from its claim to the callback that is told of its end. */
import { requireShape, type GenerationContract } from '../contract/shapes.js'
import type { CancelReason } from '../contract/status.js'
import type { ClaimToolCall, ToolClaim } from '../contract/tool-claims.js'
import { AiDbError, toError } from '../errors.js'
import { delay, raceAbort } from '../internal/abort.js'
import { persisted } from '../internal/persisted.js'
import type { RowContext, RowVerdict } from '../internal/row-effect.js'
import { watchRow, type WatchableCollection } from '../internal/row-watch.js'
import { CallStop, type Stop } from '../tools/call-stop.js'
import { cancelReasonOf, cancelRow, type UpdatableCollection } from '../tools/cancel-row.js'

type Row = GenerationContract

/** The effect's options, resolved. */
export interface GenerationEffectParts {
  generate: (row: Row, context: { signal: AbortSignal; attempt: number }) => unknown
  onComplete?: (row: Row, result: unknown) => unknown
  onCancelled?: (row: Row, reason: CancelReason) => unknown
  onError?: (row: Row, error: Error) => unknown
  claim?: ClaimToolCall<Row>
  timeout: number
  onEffectError: (error: Error, row?: Row) => void
  /** The collection the query is from, if it is from one. */
  source: (UpdatableCollection & WatchableCollection) | undefined
}

type Outcome =
  | { kind: 'completed'; result: unknown }
  | { kind: 'failed'; error: Error }
  | Exclude<Stop, { kind: 'timeout' }>

/** A row may be gone while its collection reads it afresh. Gone for so long from a ready one, it was deleted. */
const GONE_MS = 1_000

/** Disposing waits for a `generate` that heeds its signal, and so long for one that does not. */
const GRACE_MS = 1_000

export class GenerationRun {
  readonly #effect: GenerationEffectParts
  readonly #row: Row
  readonly #context: RowContext
  readonly #disposeReason: () => CancelReason
  readonly #stop = new CallStop()
  #claim: ToolClaim = { attempt: 1 }

  constructor(
    effect: GenerationEffectParts,
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
    requireShape('createGenerationEffect()', 'generation', this.#row)
    const { claim, onEffectError } = this.#effect
    if (claim) {
      try {
        const claimed = await claim(this.#row)
        if (claimed === 'later') return 'retry'
        if (!claimed) return 'passed'
        this.#claim = claimed
      } catch (thrown) {
        onEffectError(toError(thrown), this.#row)
        return 'retry'
      }
    }
    try {
      await this.#report(await this.#outcome())
    } catch (thrown) {
      if (!isFenced(thrown)) onEffectError(toError(thrown), this.#row)
    } finally {
      this.#stop.end()
    }
    return 'done'
  }

  async #outcome(): Promise<Outcome> {
    this.#listen()
    let work: Promise<unknown> | undefined
    try {
      this.#stop.soft.throwIfAborted()
      this.#stop.after(this.#effect.timeout, 'generate')
      const context = { signal: this.#stop.soft, attempt: this.#claim.attempt }
      // In an async function: what it throws at once counts like a rejection.
      work = (async () => await this.#effect.generate(this.#row, context))()
      return { kind: 'completed', result: await raceAbort(work, this.#stop.soft) }
    } catch (thrown) {
      const stop = this.#stop.reason
      if (!stop) return { kind: 'failed', error: toError(thrown) }
      if (stop.kind === 'disposed') await endedWithin(work, GRACE_MS)
      return stop.kind === 'timeout' ? { kind: 'failed', error: stop.error } : stop
    }
  }

  /** Everything that may stop this run, listened to until it ends. */
  #listen(): void {
    const { source } = this.#effect
    const { key, signal } = this.#context
    this.#stop.onAbort(signal, () => ({ kind: 'disposed', reason: this.#disposeReason() }))
    this.#stop.onAbort(this.#claim.signal, () => ({ kind: 'lost' }))
    if (!source) return
    const cancelled = (reason: CancelReason) =>
      this.#stop.stop({ kind: 'cancelled', reason, parent: false })
    let gone: ReturnType<typeof setTimeout> | undefined
    const look = () => {
      clearTimeout(gone)
      if (source.status === 'error') return
      const row = source.get(key)
      if (row?.status === 'cancelled') cancelled(cancelReasonOf(row))
      if (!row && source.status === 'ready') gone = setTimeout(() => cancelled('by-user'), GONE_MS)
    }
    this.#stop.onEnd(watchRow(source, key, look))
    this.#stop.onEnd(() => clearTimeout(gone))
    look()
  }

  async #report(outcome: Outcome): Promise<void> {
    switch (outcome.kind) {
      case 'completed':
        return this.#complete(outcome.result)
      case 'failed':
        return this.#fail(outcome.error)
      case 'cancelled':
        return this.#cancel(outcome.reason)
      case 'disposed':
        return this.#claim.release ? this.#claim.release() : this.#cancel(outcome.reason)
      case 'lost':
    }
  }

  async #complete(result: unknown): Promise<void> {
    await this.#claim.settle?.({ status: 'completed', result })
    try {
      await persisted(this.#effect.onComplete?.(this.#row, result))
    } catch (thrown) {
      // Settled, the row is as it should be. Otherwise the result is lost, and nothing else will end this row.
      if (isFenced(thrown) || this.#claim.settle || !this.#effect.onError) throw thrown
      await persisted(this.#effect.onError(this.#row, toError(thrown)))
    }
  }

  async #fail(error: Error): Promise<void> {
    if (isFenced(error)) return
    const told = error.message || 'the generation failed without a message'
    await this.#claim.settle?.({ status: 'failed', error: told })
    await persisted(this.#effect.onError?.(this.#row, error))
  }

  async #cancel(reason: CancelReason): Promise<void> {
    const { onCancelled, source } = this.#effect
    if (onCancelled) await persisted(onCancelled(this.#row, reason))
    else if (source) await cancelRow(source, this.#context.key, reason)
  }
}

const isFenced = (thrown: unknown) => thrown instanceof AiDbError && thrown.code === 'FENCED'

async function endedWithin(work: Promise<unknown> | undefined, ms: number): Promise<void> {
  const ended = new AbortController()
  const over = work?.then(
    () => ended.abort(),
    () => ended.abort(),
  )
  if (over) await Promise.race([over, delay(ms, ended.signal)])
}
