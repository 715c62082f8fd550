/**
 * Cycles until nothing is left to do, or a limit is reached. It knows no transport: what is pending and what a cycle
 * does are the caller's.
 *
 * `completed` is true only when `hasPendingWork()` said no after the last cycle. The limits are looked at between
 * cycles: a cycle is never cut off, so a budget needs room for one cycle more.
 */
import type { CheckpointContract } from '../contract/lifecycle.js'
import { refuseUnknownOptions, requireNumber } from '../internal/options.js'

export interface DrainUntilIdleOptions {
  hasPendingWork: () => Promise<boolean>
  /** One piece of work: a generation cycle, a batch of rows. */
  runCycle: () => Promise<void>
  /** No cycle begins after so many. @default none */
  maxIterations?: number
  /** No cycle begins after so many ms. @default none */
  maxDurationMs?: number
  /** After each cycle: first the heartbeat, then the checkpoint. */
  lifecycle?: {
    heartbeat?: () => Promise<void>
    checkpoint?: (checkpoints: CheckpointContract[]) => Promise<void>
  }
  /** How far the cycles have come. Asked before `hasPendingWork()`, so that what arrives in between is not skipped. */
  buildCheckpoint?: () => Promise<CheckpointContract[]>
  /** No cycle begins after it aborts; the drain then rejects with its reason. */
  signal?: AbortSignal
}

const NAME = 'drainUntilIdle()'
const KNOWN = [
  ...['hasPendingWork', 'runCycle', 'maxIterations', 'maxDurationMs', 'lifecycle'],
  ...['buildCheckpoint', 'signal'],
]

export async function drainUntilIdle(
  options: DrainUntilIdleOptions,
): Promise<{ completed: boolean; cycles: number }> {
  refuseUnknownOptions(NAME, options, KNOWN)
  const { maxIterations = Infinity, maxDurationMs = Infinity } = options
  if (maxIterations !== Infinity) requireNumber(NAME, 'maxIterations', maxIterations, 1)
  if (maxDurationMs !== Infinity) requireNumber(NAME, 'maxDurationMs', maxDurationMs)
  const began = performance.now()
  for (let cycles = 0; ; cycles += 1) {
    options.signal?.throwIfAborted()
    const checkpoints = await options.buildCheckpoint?.()
    const pending = await options.hasPendingWork()
    if (cycles > 0) await options.lifecycle?.heartbeat?.()
    if (checkpoints && checkpoints.length > 0 && (cycles > 0 || !pending)) {
      await options.lifecycle?.checkpoint?.(checkpoints)
    }
    if (!pending) return { completed: true, cycles }
    const spent = cycles >= maxIterations || performance.now() - began >= maxDurationMs
    if (spent) return { completed: false, cycles }
    await options.runCycle()
  }
}
