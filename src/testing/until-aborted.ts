/**
 * Waiting that an abort signal can end at once. The scripted adapter waits in four places (the script,
 * the pace, a test's latch, a hang) and each must let go when the run is cancelled: a model that
 * ignores its signal holds `chat()` open for ever. Nothing here leaves a timer or a listener behind.
 */

/** What a wait gives when the signal fired first. */
export const ABORTED = Symbol('aborted')

/** Settles as `work` does, or with `ABORTED` as soon as the signal fires. */
export async function untilAborted<T>(
  work: T | PromiseLike<T>,
  signal: AbortSignal | undefined,
): Promise<T | typeof ABORTED> {
  if (signal === undefined) return work
  if (signal.aborted) return ABORTED
  let stopListening = (): void => {}
  const aborted = new Promise<typeof ABORTED>((resolve) => {
    const onAbort = (): void => resolve(ABORTED)
    signal.addEventListener('abort', onAbort, { once: true })
    stopListening = () => signal.removeEventListener('abort', onAbort)
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    stopListening()
  }
}

/** Waits `ms`, or until the signal fires. */
export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const elapsed = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms)
  })
  try {
    await untilAborted(elapsed, signal)
  } finally {
    clearTimeout(timer)
  }
}

/** Ends only when the signal fires; without a signal, never. */
export async function hangUntilAborted(signal: AbortSignal | undefined): Promise<void> {
  await untilAborted(new Promise<never>(() => {}), signal)
}
