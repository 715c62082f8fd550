/** A bell that one loop waits at: rung before or during the wait, it ends it. */
import { deferred, delay } from '../internal/abort.js'

export interface Bell {
  ring(): void
  /** Resolves after `ms`, when it is rung, or when the signal aborts; no timer and no listener is left. */
  wait(ms: number): Promise<void>
}

export function createBell(signal: AbortSignal): Bell {
  let rung = deferred()
  return {
    ring: () => rung.resolve(),
    async wait(ms) {
      const enough = new AbortController()
      const stop = () => enough.abort()
      signal.addEventListener('abort', stop, { once: true })
      if (signal.aborted) stop()
      void rung.promise.then(stop)
      await delay(ms, enough.signal)
      signal.removeEventListener('abort', stop)
      rung = deferred()
    },
  }
}
