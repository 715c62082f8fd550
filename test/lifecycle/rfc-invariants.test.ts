/**
 * The RFC's implementation invariants 7, 8 and 9, over the lifecycle in memory and the one in Postgres. The tenth, which
 * needs a transport, is in webhook.test.ts.
 */
import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import type { CheckpointContract, DurableLifecycle } from '../../src/contract/lifecycle.js'
import { drainUntilIdle } from '../../src/runner/drain-until-idle.js'
import { postgresLifecycle } from '../../src/runner/postgres-lifecycle.js'
import { runWithLifecycle } from '../../src/runner/run-with-lifecycle.js'
import { memoryLifecycle } from '../../src/testing/memory-lifecycle.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})

const newWake = () => ({ runnerId: randomUUID() })

/** So many items, read one a cycle. */
function source(items: number) {
  let read = 0
  return {
    get read() {
      return read
    },
    drain: {
      hasPendingWork: async () => read < items,
      runCycle: async () => void (read += 1),
    },
  }
}

describe.each(['memory', 'postgres'])("the RFC's implementation invariants, in %s", (where) => {
  const newLifecycle = (): DurableLifecycle =>
    where === 'memory' ? memoryLifecycle() : postgresLifecycle({ db: database.db })
  const runs = { numRuns: where === 'memory' ? 100 : 15 }

  it('7. lifecycle fencing is adapter-enforced: a refused claim runs no cycle', async () => {
    const [lifecycle, wake] = [newLifecycle(), newWake()]
    const items = source(1)
    await lifecycle.claimWake(wake, { signal: new AbortController().signal })
    const run = runWithLifecycle(wake, lifecycle, () => drainUntilIdle(items.drain))
    await expect(run).rejects.toMatchObject({ code: 'WAKE_REJECTED' })
    expect(items.read).toBe(0)
  })

  it('8. checkpoint monotonicity: of any checkpoints, those kept never go back', async () => {
    const cursor = fc.oneof(fc.nat(20).map(String), fc.constantFrom('a', 'b', '-1', '007', '7'))
    const one = fc.record({ source: fc.constantFrom('s', 't'), cursor })
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(one, { maxLength: 4 })), async (batches) => {
        const [lifecycle, wake] = [newLifecycle(), newWake()]
        const sent: CheckpointContract[] = []
        const noting = {
          ...lifecycle,
          checkpoint: async (...given: Parameters<NonNullable<typeof lifecycle.checkpoint>>) => {
            await lifecycle.checkpoint!(...given)
            sent.push(...given[0])
          },
        }
        await runWithLifecycle(wake, noting, async (session) => {
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
            (await lifecycle.readCheckpoints(wake.runnerId)).find((it) => it.source === name)
              ?.cursor,
          ).toBe(cursors.at(-1))
        }
      }),
      runs,
    )
  })

  it('9. done semantics are explicit: completed only when nothing is pending at the end', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(6), fc.integer({ min: 1, max: 6 }), async (count, maxIterations) => {
        const items = source(count)
        const [lifecycle, wake] = [newLifecycle(), newWake()]
        const done: boolean[] = []
        const noting = {
          ...lifecycle,
          complete: async (...given: Parameters<NonNullable<typeof lifecycle.complete>>) => {
            done.push(given[1].done)
            await lifecycle.complete!(...given)
          },
        }
        const drained = await runWithLifecycle(wake, noting, async (session) => {
          const result = await drainUntilIdle({ ...items.drain, maxIterations })
          await session.complete({ done: result.completed })
          return result
        })
        expect(drained.completed).toBe(items.read === count)
        expect(done).toEqual([drained.completed])
      }),
      runs,
    )
  })
})

/** An oracle of its own: numbers by value, then text. */
function order(a: string, b: string): number {
  const [left, right] = [Number(/^\d+$/.test(a)), Number(/^\d+$/.test(b))]
  if (left !== right) return right - left
  return left ? Number(a) - Number(b) : a < b ? -1 : 1
}
