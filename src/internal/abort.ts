/**
 * Abort signals and timers, once. A promise that ignores its signal cannot hold up what races it here.
 */

/** Settles with `work`, or rejects with the signal's reason as soon as it aborts. Leaves no listener. */
export async function raceAbort<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  // The loser of the race must not become an unhandled rejection.
  work.catch(() => undefined)
  signal.throwIfAborted()
  let onAbort: (() => void) | undefined
  const aborted = new Promise<never>((_resolve, reject) => {
    onAbort = () => reject(signal.reason as Error)
    signal.addEventListener('abort', onAbort, { once: true })
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    if (onAbort) signal.removeEventListener('abort', onAbort)
  }
}

/** Resolves after `ms`, or earlier and without an error when the signal aborts. */
export function delay(ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', finish)
      resolve()
    }
    const timer = setTimeout(finish, ms)
    signal?.addEventListener('abort', finish, { once: true })
  })
}

/** `ms` give or take a quarter, so that many processes do not act in step. */
export function jittered(ms: number): number {
  return ms * (0.75 + Math.random() / 2)
}

/** A promise and the function that resolves it. */
export interface Deferred<T = void> {
  readonly promise: Promise<T>
  resolve(value: T): void
}

export function deferred<T = void>(): Deferred<T> {
  let resolve!: (value: T) => void
  const promise = new Promise<T>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}
