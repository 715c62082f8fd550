/** `drainUntilIdle`, and the checkpoints of a session: pure logic, with a source that is an array. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AiDbError } from '../../src/errors.js'
import type { CheckpointContract } from '../../src/contract/lifecycle.js'
import { drainUntilIdle } from '../../src/runner/drain-until-idle.js'
import { runWithLifecycle } from '../../src/runner/run-with-lifecycle.js'
import { memoryLifecycle } from '../../src/testing/memory-lifecycle.js'

/** A source of numbered items; `arrive` runs once, between the two questions of a round. */
function source(items: number, arrive?: () => void) {
  let read = 0
  let length = items
  return {
    get read() {
      return read
    },
    add: () => (length += 1),
    drain: {
      hasPendingWork: async () => {
        arrive?.()
        arrive = undefined
        return read < length
      },
      runCycle: async () => void (read += 1),
      buildCheckpoint: async () => [{ source: 's', cursor: String(read) }],
    },
  }
}

describe('drainUntilIdle', () => {
  it('runs cycles until nothing is pending', async () => {
    expect(await drainUntilIdle(source(3).drain)).toEqual({ completed: true, cycles: 3 })
    expect(await drainUntilIdle(source(0).drain)).toEqual({ completed: true, cycles: 0 })
  })

  it('is not completed at its limit of cycles, unless the last one was the last', async () => {
    const limited = (items: number) => drainUntilIdle({ ...source(items).drain, maxIterations: 2 })
    expect(await limited(3)).toEqual({ completed: false, cycles: 2 })
    expect(await limited(2)).toEqual({ completed: true, cycles: 2 })
  })

  it('begins no cycle after its time', async () => {
    const spent = drainUntilIdle({ ...source(3).drain, maxDurationMs: 0 })
    expect(await spent).toEqual({ completed: false, cycles: 0 })
  })

  it('begins no cycle once its signal aborted', async () => {
    const items = source(3)
    const stop = new AbortController()
    const runCycle = async () => {
      await items.drain.runCycle()
      stop.abort(new Error('shutdown'))
    }
    const drain = drainUntilIdle({ ...items.drain, runCycle, signal: stop.signal })
    await expect(drain).rejects.toThrow('shutdown')
    expect(items.read).toBe(1)
  })

  it('beats and checkpoints after each cycle, and an error of either ends it', async () => {
    const told: unknown[] = []
    const lifecycle = {
      heartbeat: async () => void told.push('beat'),
      checkpoint: async ([one]: CheckpointContract[]) => void told.push(one!.cursor),
    }
    await drainUntilIdle({ ...source(2).drain, lifecycle })
    expect(told).toEqual(['beat', '1', 'beat', '2'])
    const lost = () => Promise.reject(new AiDbError('FENCED', 'lost'))
    const items = source(3)
    const drain = drainUntilIdle({ ...items.drain, lifecycle: { heartbeat: lost } })
    await expect(drain).rejects.toMatchObject({ code: 'FENCED' })
    expect(items.read).toBe(1)
  })

  it('what arrives while it looks is not behind the checkpoint of an idle source', async () => {
    let upTo = 5
    const told: string[] = []
    await drainUntilIdle({
      hasPendingWork: async () => {
        upTo += 1
        return false
      },
      runCycle: async () => {},
      buildCheckpoint: async () => [{ source: 's', cursor: String(upTo) }],
      lifecycle: { checkpoint: async ([one]) => void told.push(one!.cursor) },
    })
    expect(told).toEqual(['5'])
  })

  it('refuses options it does not know, and limits that are none', async () => {
    const misspelt = { ...source(1).drain, maxIteration: 1 }
    await expect(drainUntilIdle(misspelt)).rejects.toThrow("did you mean 'maxIterations'?")
    await expect(drainUntilIdle({ ...source(1).drain, maxIterations: 0 })).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    })
  })
})

describe("the RFC's implementation invariants", () => {
  it('7. lifecycle fencing is adapter-enforced: a refused claim runs no cycle', async () => {
    const lifecycle = memoryLifecycle()
    const items = source(1)
    await lifecycle.claimWake({ runnerId: 'r' }, { signal: new AbortController().signal })
    const run = runWithLifecycle({ runnerId: 'r' }, lifecycle, () => drainUntilIdle(items.drain))
    await expect(run).rejects.toMatchObject({ code: 'WAKE_REJECTED' })
    expect(items.read).toBe(0)
  })

  it('8. checkpoint monotonicity: of any checkpoints, those kept never go back', async () => {
    const cursor = fc.oneof(fc.nat(20).map(String), fc.constantFrom('a', 'b', '-1', '007', '7'))
    const one = fc.record({ source: fc.constantFrom('s', 't'), cursor })
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(one, { maxLength: 4 })), async (batches) => {
        const lifecycle = memoryLifecycle()
        const sent: CheckpointContract[] = []
        const noting = {
          ...lifecycle,
          checkpoint: async (...given: Parameters<NonNullable<typeof lifecycle.checkpoint>>) => {
            await lifecycle.checkpoint!(...given)
            sent.push(...given[0])
          },
        }
        await runWithLifecycle({ runnerId: 'r' }, noting, async (session) => {
          for (const batch of batches) {
            const before = sent.length
            const outcome = await session.checkpoint(batch).catch((thrown: unknown) => thrown)
            if (outcome === undefined) continue
            expect(outcome).toMatchObject({ code: 'CHECKPOINT_REGRESSED', field: 'cursor' })
            // Deterministic: the same batch is refused again, and none of it was sent.
            await expect(session.checkpoint(batch)).rejects.toEqual(outcome)
            expect(sent.length).toBe(before)
          }
        })
        for (const name of ['s', 't']) {
          const cursors = sent.filter((it) => it.source === name).map((it) => it.cursor)
          expect(cursors).toEqual([...new Set(cursors)].sort(order))
          expect(
            (await lifecycle.readCheckpoints('r')).find((it) => it.source === name)?.cursor,
          ).toBe(cursors.at(-1))
        }
      }),
    )
  })

  it('9. done semantics are explicit: completed only when nothing is pending at the end', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(6), fc.integer({ min: 1, max: 6 }), async (count, maxIterations) => {
        const items = source(count)
        const lifecycle = memoryLifecycle()
        const done: boolean[] = []
        const noting = {
          ...lifecycle,
          complete: async (...given: Parameters<NonNullable<typeof lifecycle.complete>>) => {
            done.push(given[1].done)
            await lifecycle.complete!(...given)
          },
        }
        const drained = await runWithLifecycle({ runnerId: 'r' }, noting, async (session) => {
          const result = await drainUntilIdle({ ...items.drain, maxIterations })
          await session.complete({ done: result.completed })
          return result
        })
        expect(drained.completed).toBe(items.read === count)
        expect(done).toEqual([drained.completed])
      }),
    )
  })
})

/** An oracle of its own: numbers by value, then text. */
function order(a: string, b: string): number {
  const [left, right] = [Number(/^\d+$/.test(a)), Number(/^\d+$/.test(b))]
  if (left !== right) return right - left
  return left ? Number(a) - Number(b) : a < b ? -1 : 1
}
