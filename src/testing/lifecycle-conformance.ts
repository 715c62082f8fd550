/**
 * What every `RunnerLifecycleAdapter` has to do, as cases that any test runner can run:
 *
 *     for (const { name, run } of lifecycleConformance(harness)) test(name, run)
 *
 * The harness makes wakes of the transport and instances of the adapter; each instance stands for another process.
 * A case that fails rejects with an error that says what was expected. Not tested: how a wake is delivered.
 */
import type {
  CheckpointContract,
  LifecycleState,
  RunnerLifecycleAdapter,
} from '../contract/lifecycle.js'
import { drainUntilIdle } from '../runner/drain-until-idle.js'
import { runWithLifecycle } from '../runner/run-with-lifecycle.js'
import { codeOf, expectCode, type ConformanceCase } from './conformance-case.js'

export interface LifecycleHarness<TWake> {
  /** An instance of its own over the same backend, as another process would have it. */
  createAdapter(): RunnerLifecycleAdapter<TWake>
  /** A wake that nobody has claimed, for a runner that no other case uses. */
  createWake(): Promise<TWake>
  /** Takes the wake from its holder, as a lease does that ran out and was claimed by somebody else. */
  takeOver(wake: TWake): Promise<void>
  /** `count` checkpoints of one source of the wake, in the order they are read. Absent: the adapter keeps none. */
  checkpoints?(wake: TWake, count: number): Promise<CheckpointContract[]>
}

type Case = <TWake>(harness: LifecycleHarness<TWake>) => Promise<void>

export function lifecycleConformance<TWake>(harness: LifecycleHarness<TWake>): ConformanceCase[] {
  const all = harness.checkpoints ? { ...lifecycleCases, ...checkpointCases } : lifecycleCases
  return Object.entries(all).map(([name, one]) => ({ name, run: () => one(harness) }))
}

const lifecycleCases: Readonly<Record<string, Case>> = {
  'a wake that nobody holds is claimed, kept alive and completed': async (harness) => {
    const { adapter, state } = await claimed(harness)
    await adapter.heartbeat?.(state)
    await adapter.complete?.(state, { done: true })
  },
  'a wake that somebody holds is refused, and its work is not run': async (harness) => {
    const { wake } = await claimed(harness)
    let ran = false
    const run = runWithLifecycle(wake, harness.createAdapter(), async () => {
      ran = true
    })
    await expectCode('the second claim', run, 'WAKE_REJECTED')
    if (ran) throw new Error('The work of a refused claim was run.')
  },
  'of many claims at once, one wins': async (harness) => {
    const wake = await harness.createWake()
    const claims = Array.from({ length: 8 }, () => {
      const claim = harness.createAdapter().claimWake(wake, { signal: unaborted() })
      return claim.then(
        () => 'won',
        (thrown: unknown) => codeOf(thrown),
      )
    })
    const outcomes = (await Promise.all(claims)).sort()
    const expected = [...Array<string>(7).fill('WAKE_REJECTED'), 'won']
    if (String(outcomes) !== String(expected)) {
      throw new Error(`Expected one claim of eight to win, got ${outcomes.join(', ')}.`)
    }
  },
  'a holder that lost the wake is fenced in everything it writes': async (harness) => {
    const { adapter, state, wake } = await claimed(harness)
    const checkpoints = (await harness.checkpoints?.(wake, 1)) ?? []
    await harness.takeOver(wake)
    if (adapter.heartbeat) await expectCode('heartbeat', adapter.heartbeat(state), 'FENCED')
    if (adapter.checkpoint && checkpoints.length > 0) {
      await expectCode('checkpoint', adapter.checkpoint(checkpoints, state), 'FENCED')
    }
    if (adapter.complete) {
      await expectCode('complete', adapter.complete(state, { done: true }), 'FENCED')
    }
  },
  'a wake that was completed is not completed again': async (harness) => {
    const { adapter, state } = await claimed(harness)
    if (!adapter.complete) return
    await adapter.complete(state, { done: true })
    await expectCode('complete', adapter.complete(state, { done: true }), 'FENCED')
  },
  'a wake that failed can be claimed again': async (harness) => {
    const { adapter, state, wake } = await claimed(harness)
    await adapter.fail?.(state, new Error('broken'))
    await harness.createAdapter().claimWake(wake, { signal: unaborted() })
  },
  'a session that loses its wake is aborted, and its run rejects with FENCED': async (harness) => {
    const wake = await harness.createWake()
    const run = runWithLifecycle(wake, harness.createAdapter(), async (session) => {
      await harness.takeOver(wake)
      await session.heartbeat().catch(() => undefined)
      if (!session.signal.aborted) throw new Error('The signal of a lost session did not abort.')
    })
    await expectCode('the run', run, 'FENCED')
  },
}

const checkpointCases: Readonly<Record<string, Case>> = {
  'checkpoints that go forward are taken, the same one twice too': async (harness) => {
    const { adapter, state, wake } = await claimed(harness)
    const [first, second] = await harness.checkpoints!(wake, 2)
    for (const one of [first!, second!, second!]) await adapter.checkpoint?.([one], state)
    await adapter.complete?.(state, { done: true })
  },
  'a checkpoint that goes back is refused, each time, and the session goes on': async (harness) => {
    const { adapter, state, wake } = await claimed(harness)
    const [first, second, third] = await harness.checkpoints!(wake, 3)
    await adapter.checkpoint?.([second!], state)
    for (let times = 0; times < 2; times += 1) {
      const back = adapter.checkpoint?.([first!], state)
      await expectCode('a checkpoint that goes back', back, 'CHECKPOINT_REGRESSED')
    }
    await adapter.checkpoint?.([third!], state)
    await adapter.complete?.(state, { done: true })
  },
  'a drain checkpoints each cycle and completes as done': async (harness) => {
    const wake = await harness.createWake()
    const checkpoints = await harness.checkpoints!(wake, 3)
    let read = 0
    const drained = await runWithLifecycle(wake, harness.createAdapter(), async (session) => {
      const result = await drainUntilIdle({
        hasPendingWork: async () => read < checkpoints.length,
        runCycle: async () => void (read += 1),
        buildCheckpoint: async () => checkpoints.slice(0, read).slice(-1),
        lifecycle: {
          heartbeat: () => session.heartbeat(),
          checkpoint: (rows) => session.checkpoint(rows),
        },
      })
      await session.complete({ done: result.completed })
      return result
    })
    if (!drained.completed || drained.cycles !== 3) {
      throw new Error(`Expected three cycles to the end, got ${JSON.stringify(drained)}.`)
    }
  },
}

async function claimed<TWake>(harness: LifecycleHarness<TWake>): Promise<{
  adapter: RunnerLifecycleAdapter<TWake>
  wake: TWake
  state: LifecycleState<TWake>
}> {
  const [adapter, wake] = [harness.createAdapter(), await harness.createWake()]
  const claim = await adapter.claimWake(wake, { signal: unaborted() })
  return { adapter, wake, state: { wake, ...claim } }
}

const unaborted = () => new AbortController().signal
