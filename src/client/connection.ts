/**
 * How a session's connection does, for a banner; and the one bell that wakes whatever waits for it to be
 * better: the browser's 'online', or `refresh()`.
 *
 * Shapes and writes fail apart from each other (the sync server can be down while sends go through), so
 * each reports under its own name, and the session is online when none of them is cut off.
 */
import type { AiDbError, AiDbErrorCode } from '../errors.js'
import { StateStore } from './external-store.js'
import type { ShapeHealth } from '../electric/lasting-fetch.js'

export interface ConnectionState {
  /** Whatever is asked is answered. */
  online: boolean
  /** Writes not confirmed yet: waiting for the network, the server or their echo. */
  waiting: number
  /** Why something is being tried again. */
  error?: AiDbError
}

/** Answers that say: reached, but no. */
const REFUSALS: ReadonlySet<AiDbErrorCode> = new Set([
  'UNAUTHENTICATED',
  'FORBIDDEN',
  'NOT_FOUND',
  'UNKNOWN_SESSION',
  'INVALID_INPUT',
])

export class Connection {
  readonly #store = new StateStore<ConnectionState>({ online: !browserIsOffline(), waiting: 0 })
  readonly #failing = new Map<string, AiDbError>()
  readonly #sleepers = new Set<() => void>()
  readonly #window = browserWindow()
  readonly #onWake: () => void

  /** @param onWake Called whenever it may pay to try again. */
  constructor(onWake: () => void) {
    this.#onWake = onWake
    this.#window?.addEventListener('online', this.wake)
    this.#window?.addEventListener('offline', this.#publish)
  }

  readonly get = this.#store.get
  readonly subscribe = this.#store.subscribe

  /** What one shape, or the outbox, reports under. */
  healthOf(name: string): ShapeHealth {
    return {
      reached: () => {
        if (this.#failing.delete(name)) this.#publish()
      },
      failed: (error) => {
        // The last to fail is the one that is shown.
        this.#failing.delete(name)
        this.#failing.set(name, error)
        this.#publish()
      },
      pause: (ms, signal) => this.#pause(ms, signal),
    }
  }

  countWaiting(change: 1 | -1): void {
    this.#publish(change)
  }

  /** Whoever pauses tries again now. */
  readonly wake = (): void => {
    for (const wake of [...this.#sleepers]) wake()
    this.#onWake()
    this.#publish()
  }

  close(): void {
    this.#window?.removeEventListener('online', this.wake)
    this.#window?.removeEventListener('offline', this.#publish)
    for (const wake of [...this.#sleepers]) wake()
  }

  #pause(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const finish = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', finish)
        this.#sleepers.delete(finish)
        resolve()
      }
      const timer = setTimeout(finish, ms)
      signal?.addEventListener('abort', finish)
      this.#sleepers.add(finish)
    })
  }

  readonly #publish = (change: unknown = 0): void => {
    const error = [...this.#failing.values()].at(-1)
    const cutOff = [...this.#failing.values()].some(({ code }) => !REFUSALS.has(code))
    this.#store.set({
      online: !cutOff && !browserIsOffline(),
      waiting: this.#store.get().waiting + (typeof change === 'number' ? change : 0),
      ...(error && { error }),
    })
  }
}

function browserWindow(): EventTarget | undefined {
  return typeof window === 'undefined' ? undefined : window
}

function browserIsOffline(): boolean {
  return typeof window !== 'undefined' && window.navigator.onLine === false
}
