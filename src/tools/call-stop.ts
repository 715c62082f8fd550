/**
 * What may stop one execution of a tool call, gathered into two signals: `soft` tells the tool to stop, `hard`
 * says that nothing it returns is wanted. The first reason stays. Listeners end with the execution, so
 * that the long-lived signals behind it gather none.
 */
import type { CancelReason } from '../contract/status.js'
import { AiDbError } from '../errors.js'

export type Stop =
  /** The effect is disposed: the call was interrupted for no reason of its own. */
  | { kind: 'disposed'; reason: CancelReason }
  /** The call, or the generation it belongs to (`parent`), was cancelled. */
  | { kind: 'cancelled'; reason: CancelReason; parent: boolean }
  /** The claim is somebody else's now. */
  | { kind: 'lost' }
  | { kind: 'timeout'; error: AiDbError }

export class CallStop {
  readonly #soft = new AbortController()
  readonly #hard = new AbortController()
  readonly #cleanups: (() => void)[] = []
  #stop: Stop | undefined

  get soft(): AbortSignal {
    return this.#soft.signal
  }

  get hard(): AbortSignal {
    return this.#hard.signal
  }

  /** Why it was stopped; a hard stop has the last word. */
  get reason(): Stop | undefined {
    return this.#stop
  }

  /** A cancelled parent is soft: whether a late result counts is the host's policy. */
  stop(stop: Stop): void {
    const soft = stop.kind === 'cancelled' && stop.parent
    if (this.hard.aborted || (soft && this.soft.aborted)) return
    this.#stop = stop
    const error =
      stop.kind === 'timeout' ? stop.error : new AiDbError('CANCELLED', MESSAGES[stop.kind])
    this.#soft.abort(error)
    if (!soft) this.#hard.abort(error)
  }

  /** Stops when the signal aborts. */
  onAbort(signal: AbortSignal | undefined, toStop: (signal: AbortSignal) => Stop): void {
    if (!signal) return
    const stop = () => this.stop(toStop(signal))
    if (signal.aborted) return stop()
    signal.addEventListener('abort', stop, { once: true })
    this.onEnd(() => signal.removeEventListener('abort', stop))
  }

  after(ms: number | undefined, name: string): void {
    if (ms === undefined || ms === Infinity) return
    const error = new AiDbError('TIMEOUT', `${name} took longer than ${ms} ms`)
    const timer = setTimeout(() => this.stop({ kind: 'timeout', error }), ms)
    this.onEnd(() => clearTimeout(timer))
  }

  onEnd(cleanup: () => void): void {
    this.#cleanups.push(cleanup)
  }

  end(): void {
    for (const cleanup of this.#cleanups.splice(0)) cleanup()
  }
}

const MESSAGES = {
  disposed: 'The tool execution effect was disposed.',
  cancelled: 'The tool call was cancelled.',
  lost: 'The tool call is no longer held: somebody else claimed it.',
} as const
