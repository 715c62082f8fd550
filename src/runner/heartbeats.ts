/**
 * Heartbeats of one session: one at a time, an interval from one to the next. One that fails is
 * tried again at the next interval; when none got through for as long as the lease lasts, somebody else may have been
 * woken, and the session counts as lost.
 */
import { AiDbError, toError } from '../errors.js'

export interface HeartbeatOptions {
  /** 0 for none. */
  intervalMs: number
  /** So long a silence loses the session, in ms. Absent: a silence is let pass. */
  leaseMs?: number | undefined
  beat(): Promise<void>
  onError?: ((error: Error) => void) | undefined
  onSilence(error: AiDbError): void
}

/** @returns stops them; idempotent. */
export function startHeartbeats(options: HeartbeatOptions): () => void {
  const { intervalMs, leaseMs } = options
  let timer: ReturnType<typeof setTimeout> | undefined
  let stopped = intervalMs <= 0
  let silence: ReturnType<typeof setTimeout> | undefined
  const stop = () => {
    stopped = true
    clearTimeout(timer)
    clearTimeout(silence)
  }
  const listen = (sinceMs: number) => {
    clearTimeout(silence)
    if (leaseMs === undefined) return
    silence = setTimeout(
      () => {
        stop()
        options.onSilence(silent(leaseMs))
      },
      Math.max(0, leaseMs - sinceMs),
    )
  }
  const beat = async () => {
    const sent = performance.now()
    try {
      await options.beat()
      if (stopped) return
      // The lease runs from when the beat was sent, at the earliest.
      const took = performance.now() - sent
      listen(took)
      timer = setTimeout(() => void beat(), Math.max(0, intervalMs - took))
    } catch (thrown) {
      if (stopped) return
      options.onError?.(toError(thrown))
      timer = setTimeout(() => void beat(), intervalMs)
    }
  }
  if (!stopped) {
    listen(0)
    timer = setTimeout(() => void beat(), intervalMs)
  }
  return stop
}

const silent = (leaseMs: number) =>
  new AiDbError(
    'FENCED',
    `No heartbeat got through for ${Math.round(leaseMs)} ms, so the wake may be somebody else's by now. Drop this run.`,
  )
