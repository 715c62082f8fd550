/** `runWithLifecycle`: what happens around the work, over an adapter that notes what reaches it. */
import { afterEach, describe, expect, it, vi } from 'vitest'
import { AiDbError } from '../../src/errors.js'
import type {
  CheckpointContract,
  RunnerLifecycleAdapter,
  RunnerSession,
} from '../../src/contract/lifecycle.js'
import { deferred } from '../../src/internal/abort.js'
import { runWithLifecycle } from '../../src/runner/run-with-lifecycle.js'

type Adapter = RunnerLifecycleAdapter<string>

/** Notes the calls; `over` replaces methods. */
function noting(over: Partial<Adapter> = {}) {
  const calls: string[] = []
  const base: Adapter = {
    claimWake: async () => ({ fenceToken: '7' }),
    heartbeat: async () => {},
    checkpoint: async () => {},
    complete: async () => {},
    fail: async () => {},
  }
  const words: Record<string, (...args: never[]) => string> = {
    checkpoint: (given: CheckpointContract[]) => given.map((c) => `${c.source}=${c.cursor}`).join(),
    complete: (_state: unknown, result: { done: boolean }) => String(result.done),
    fail: (_state: unknown, error: Error) => error.message,
  }
  const adapter: Record<string, unknown> = { ...base, ...over }
  for (const [name, method] of Object.entries(adapter)) {
    if (typeof method !== 'function') continue
    adapter[name] = (...args: never[]) => {
      calls.push([name, words[name]?.(...args)].filter(Boolean).join(' '))
      return (method as (...all: never[]) => unknown)(...args)
    }
  }
  return { calls, adapter: adapter as unknown as Adapter }
}

const fenced = new AiDbError('FENCED', 'somebody else has it')
const rejects = async () => {
  throw fenced
}
const untilAborted = (session: RunnerSession<string>) =>
  new Promise<never>((_resolve, reject) => {
    session.signal.addEventListener('abort', () => reject(session.signal.reason as Error))
  })

afterEach(() => {
  vi.useRealTimers()
})

describe('runWithLifecycle', () => {
  it('claims before any work, then completes once and returns what the work returned', async () => {
    const { adapter, calls } = noting()
    const result = await runWithLifecycle('wake', adapter, async (session) => {
      calls.push(`work ${session.wake} ${session.fenceToken}`)
      await session.complete({ done: true })
      return 42
    })
    expect(result).toBe(42)
    expect(calls).toEqual(['claimWake', 'work wake 7', 'complete true'])
  })

  it('runs nothing when the claim is refused', async () => {
    const refusal = new AiDbError('WAKE_REJECTED', 'held')
    const { adapter, calls } = noting({ claimWake: () => Promise.reject(refusal) })
    await expect(runWithLifecycle('wake', adapter, async () => calls.push('work'))).rejects.toBe(
      refusal,
    )
    expect(calls).toEqual(['claimWake'])
  })

  it('never claims to be idle for work that did not say so', async () => {
    const { adapter, calls } = noting()
    await runWithLifecycle('wake', adapter, async () => {})
    expect(calls).toEqual(['claimWake', 'complete false'])
  })

  it('tells of a failure once, and throws it', async () => {
    const { adapter, calls } = noting()
    const work = runWithLifecycle('wake', adapter, () => Promise.reject(new Error('broken')))
    await expect(work).rejects.toThrow('broken')
    expect(calls).toEqual(['claimWake', 'fail broken'])
  })

  it('throws what the work threw when the adapter cannot be told either', async () => {
    const { adapter } = noting({ fail: () => Promise.reject(new Error('unreachable')) })
    const work = runWithLifecycle('wake', adapter, () => Promise.reject(new Error('broken')))
    await expect(work).rejects.toThrow('broken')
  })

  it('ends once: what comes after the end is refused and reaches nobody', async () => {
    const { adapter, calls } = noting()
    await runWithLifecycle('wake', adapter, async (session) => {
      await session.complete({ done: true })
      const after = [
        () => session.complete({ done: true }),
        () => session.fail(new Error('late')),
        () => session.heartbeat(),
        () => session.checkpoint([{ source: 's', cursor: '1' }]),
      ]
      for (const call of after) await expect(call()).rejects.toMatchObject({ code: 'FENCED' })
    })
    expect(calls).toEqual(['claimWake', 'complete true'])
  })

  it('an error after the end is thrown, and the end stands', async () => {
    const { adapter, calls } = noting()
    const work = runWithLifecycle('wake', adapter, async (session) => {
      await session.complete({ done: true })
      throw new Error('too late')
    })
    await expect(work).rejects.toThrow('too late')
    expect(calls).toEqual(['claimWake', 'complete true'])
  })

  it('an end that could not be told is not told again', async () => {
    const { adapter, calls } = noting({ complete: () => Promise.reject(new Error('unreachable')) })
    const work = runWithLifecycle('wake', adapter, (session) => session.complete({ done: true }))
    await expect(work).rejects.toThrow('unreachable')
    expect(calls).toEqual(['claimWake', 'complete true'])
  })

  it('hands out no session after it ended', async () => {
    const { adapter, calls } = noting()
    let kept: RunnerSession<string> | undefined
    await runWithLifecycle('wake', adapter, async (session) => void (kept = session))
    await expect(kept!.heartbeat()).rejects.toMatchObject({ code: 'FENCED' })
    expect(calls).toEqual(['claimWake', 'complete false'])
  })

  it.each(['heartbeat', 'checkpoint'] as const)(
    'a fenced %s aborts the work, and nothing more is sent',
    async (method) => {
      const { adapter, calls } = noting({ [method]: rejects })
      const work = runWithLifecycle('wake', adapter, async (session) => {
        const waiting = untilAborted(session)
        const call =
          method === 'heartbeat'
            ? session.heartbeat()
            : session.checkpoint([{ source: 's', cursor: '1' }])
        await call.catch(() => undefined)
        await waiting
      })
      await expect(work).rejects.toBe(fenced)
      expect(calls).toHaveLength(2)
    },
  )

  it('work that ignores its loss and returns is told of it all the same', async () => {
    const { adapter, calls } = noting({ heartbeat: rejects })
    const work = runWithLifecycle('wake', adapter, async (session) => {
      await session.heartbeat().catch(() => undefined)
      return 'I am fine'
    })
    await expect(work).rejects.toBe(fenced)
    expect(calls).toEqual(['claimWake', 'heartbeat'])
  })

  it('a call that hangs does not hold up the news that the wake is lost', async () => {
    const hanging = deferred()
    const { adapter } = noting({
      checkpoint: () => hanging.promise,
      leaseMs: 30,
      heartbeatIntervalMs: 5,
    })
    const work = runWithLifecycle('wake', adapter, (session) =>
      session.checkpoint([{ source: 's', cursor: '1' }]),
    )
    await expect(work).rejects.toMatchObject({ code: 'FENCED' })
  })

  it('calls reach the adapter one after another', async () => {
    const first = deferred()
    const { adapter, calls } = noting({ heartbeat: () => first.promise })
    await runWithLifecycle('wake', adapter, async (session) => {
      const beat = session.heartbeat()
      const checkpoint = session.checkpoint([{ source: 's', cursor: '1' }])
      const complete = session.complete({ done: true })
      await Promise.resolve()
      expect(calls).toEqual(['claimWake', 'heartbeat'])
      first.resolve()
      await Promise.all([beat, checkpoint, complete])
    })
    expect(calls).toEqual(['claimWake', 'heartbeat', 'checkpoint s=1', 'complete true'])
  })
})

describe('a host that aborts', () => {
  it('before the claim: nothing is claimed', async () => {
    const { adapter, calls } = noting()
    const options = { signal: AbortSignal.abort(new Error('shutdown')) }
    await expect(runWithLifecycle('wake', adapter, async () => {}, options)).rejects.toThrow(
      'shutdown',
    )
    expect(calls).toEqual([])
  })

  it('during the claim: it is not waited for, and handed back when it arrives', async () => {
    const claimed = deferred<{ fenceToken: string }>()
    const handedBack = deferred()
    const { adapter, calls } = noting({
      claimWake: () => claimed.promise,
      fail: async () => handedBack.resolve(),
    })
    const host = new AbortController()
    const options = { signal: host.signal }
    const work = runWithLifecycle('wake', adapter, async () => calls.push('work'), options)
    host.abort(new Error('shutdown'))
    await expect(work).rejects.toThrow('shutdown')
    claimed.resolve({ fenceToken: '7' })
    await handedBack.promise
    expect(calls).toEqual(['claimWake', 'fail shutdown'])
  })

  it('during the work: it may end in order', async () => {
    const host = new AbortController()
    const { adapter, calls } = noting()
    await runWithLifecycle(
      'wake',
      adapter,
      async (session) => {
        host.abort()
        expect(session.signal.aborted).toBe(true)
        await session.checkpoint([{ source: 's', cursor: '1' }])
        await session.complete({ done: false })
      },
      { signal: host.signal },
    )
    expect(calls).toEqual(['claimWake', 'checkpoint s=1', 'complete false'])
  })

  it('leaves no listener on its signal', async () => {
    const host = new AbortController()
    const added = vi.spyOn(host.signal, 'addEventListener')
    const removed = vi.spyOn(host.signal, 'removeEventListener')
    await runWithLifecycle('wake', noting().adapter, async () => {}, { signal: host.signal })
    expect(removed.mock.calls.length).toBe(added.mock.calls.length)
  })
})

describe('periodic heartbeats', () => {
  it('are sent at their interval while the work runs, and no timer is left behind', async () => {
    vi.useFakeTimers()
    const { adapter, calls } = noting({ leaseMs: 300 })
    const finish = deferred()
    const work = runWithLifecycle('wake', adapter, () => finish.promise)
    await vi.advanceTimersByTimeAsync(1_000)
    expect(calls.filter((call) => call === 'heartbeat')).toHaveLength(10)
    finish.resolve()
    await work
    expect(vi.getTimerCount()).toBe(0)
    expect(calls.at(-1)).toBe('complete false')
  })

  it('that fail are tried again, and one that gets through keeps the session', async () => {
    vi.useFakeTimers()
    let fails = 2
    const { adapter } = noting({
      leaseMs: 350,
      heartbeat: () => (fails-- > 0 ? Promise.reject(new Error('away')) : Promise.resolve()),
    })
    const errors: string[] = []
    const finish = deferred()
    const work = runWithLifecycle('wake', adapter, () => finish.promise, {
      heartbeatIntervalMs: 100,
      onHeartbeatError: (error) => errors.push(error.message),
    })
    await vi.advanceTimersByTimeAsync(1_000)
    finish.resolve()
    await work
    expect(errors).toEqual(['away', 'away'])
  })

  it('that all fail for a lease lose the session', async () => {
    vi.useFakeTimers()
    const { adapter, calls } = noting({
      leaseMs: 300,
      heartbeat: () => Promise.reject(new Error('away')),
    })
    const work = runWithLifecycle('wake', adapter, untilAborted)
    const outcome = expect(work).rejects.toMatchObject({ code: 'FENCED' })
    await vi.advanceTimersByTimeAsync(301)
    await outcome
    expect(calls).not.toContain('fail')
    expect(vi.getTimerCount()).toBe(0)
  })

  it('are not sent when the caller says 0, or when the adapter has none', async () => {
    vi.useFakeTimers()
    const { adapter, calls } = noting({ leaseMs: 300 })
    const finish = deferred()
    const off = runWithLifecycle('wake', adapter, () => finish.promise, { heartbeatIntervalMs: 0 })
    const none = runWithLifecycle(
      'wake',
      { claimWake: async () => ({}), leaseMs: 300 },
      () => finish.promise,
    )
    await vi.advanceTimersByTimeAsync(1_000)
    finish.resolve()
    await Promise.all([off, none])
    expect(calls).not.toContain('heartbeat')
  })
})
