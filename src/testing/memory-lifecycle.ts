/**
 * A lifecycle in memory, with the semantics of `postgresLifecycle()`: one holder a runner, a fence that every claim
 * raises, checkpoints that never go back. For tests and demos, and for runners of one process.
 *
 * Its leases end by `expire()` only: a test says when, no clock does.
 */
import { AiDbError, FencedError } from '../errors.js'
import { advanceCheckpoints } from '../contract/advance-checkpoints.js'
import { compareCursors } from '../contract/cursor-order.js'
import type { DurableLifecycle, LifecycleState, RunnerWake } from '../contract/lifecycle.js'

export interface MemoryLifecycle<TWake = RunnerWake> extends DurableLifecycle<TWake> {
  /** What a lease that ran out does: the runner may be claimed again, and the holder is fenced from then on. */
  expire(runnerId: string): void
  /** Another process on the same memory. */
  fork(): MemoryLifecycle<TWake>
}

export interface MemoryLifecycleOptions<TWake> {
  /** Which runner a wake is for. @default its `runnerId` */
  runnerId?: (wake: TWake) => string
}

interface Runner {
  fence: number
  held: boolean
  wakeId: string | undefined
  checkpoints: Map<string, string>
}

export function memoryLifecycle<TWake = RunnerWake>(
  options: MemoryLifecycleOptions<TWake> = {},
): MemoryLifecycle<TWake> {
  return onMemory(new Map(), options)
}

function onMemory<TWake>(
  runners: Map<string, Runner>,
  options: MemoryLifecycleOptions<TWake>,
): MemoryLifecycle<TWake> {
  const idOf = options.runnerId ?? ((wake: TWake) => (wake as RunnerWake).runnerId)
  const held = ({ wake, fenceToken }: LifecycleState<TWake>): Runner => {
    const runner = runners.get(idOf(wake))
    if (runner?.held && String(runner.fence) === fenceToken) return runner
    throw new FencedError(`Runner ${idOf(wake)}`, Number(fenceToken))
  }
  // Each is async, so that what it throws is a rejection.
  return {
    claimWake: async (wake) => ({ fenceToken: String(take(runners, idOf(wake), wake)) }),
    heartbeat: async (state) => void held(state),
    async checkpoint(given, state) {
      const { checkpoints } = held(state)
      const forward = advanceCheckpoints(checkpoints, given, compareCursors)
      for (const { source, cursor } of forward) checkpoints.set(source, cursor)
    },
    async complete(state, { done }) {
      const runner = held(state)
      runner.held = false
      if (!done) runner.wakeId = undefined
    },
    async fail(state) {
      Object.assign(held(state), { held: false, wakeId: undefined })
    },
    readCheckpoints: async (runnerId) =>
      [...(runners.get(runnerId)?.checkpoints ?? [])].map(([source, cursor]) => ({
        source,
        cursor,
      })),
    expire(runnerId) {
      const runner = runners.get(runnerId)
      if (runner) Object.assign(runner, { held: false, wakeId: undefined })
    },
    fork: () => onMemory(runners, options),
  }
}

function take<TWake>(runners: Map<string, Runner>, id: string, wake: TWake): number {
  const { wakeId } = wake as Partial<RunnerWake>
  const runner = runners.get(id) ?? {
    ...{ fence: 0, held: false, wakeId: undefined },
    checkpoints: new Map<string, string>(),
  }
  if (runner.held) throw rejected(`Runner ${id} is held by somebody else.`)
  if (wakeId !== undefined && wakeId === runner.wakeId) throw rejected(`Wake ${wakeId} is done.`)
  runners.set(id, Object.assign(runner, { fence: runner.fence + 1, held: true, wakeId }))
  return runner.fence
}

const rejected = (fact: string) =>
  new AiDbError('WAKE_REJECTED', `${fact} Drop it: whoever holds the work goes on with it.`)
