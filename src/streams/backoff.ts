/** Waiting between tries: full stop at `capMs`, jittered so that a restarted server meets no wall. */

export function backoffMs(tries: number, firstMs: number, capMs: number): number {
  return Math.min(capMs, firstMs * 2 ** Math.min(tries, 20)) * (0.5 + Math.random() / 2)
}

/** Resolves after `ms`, or at once when `signal` aborts; it never rejects and leaves no timer. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const finish = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', finish)
      resolve()
    }
    const timer = setTimeout(finish, ms)
    signal?.addEventListener('abort', finish)
  })
}
