/**
 * Once-only execution under whatever a collection does to its rows: random optimistic touches (some refused),
 * truncates and refetches, and failures of the sync. A failure prints its seed and smallest case.
 */
import { createCollection, eq, type SyncConfig } from '@tanstack/db'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createToolExecutionEffect } from '../../src/index.js'
import { pollUntil } from '../support/poll-until.js'
import { next, pendingCall, searchTool, type CallRow } from './tool-world.js'

/** A collection whose sync the test plays, and the server behind it. */
function syncedByHand() {
  const server = new Map<string, CallRow>()
  type Controls = Parameters<SyncConfig<CallRow, string>['sync']>[0]
  let controls: Controls | undefined
  const write = (rows: { type: 'insert' | 'update'; value: CallRow }[], truncate = false) => {
    if (!controls) return
    controls.begin()
    if (truncate) controls.truncate()
    for (const row of rows) controls.write(row)
    void controls.commit()
  }
  const all = () => [...server.values()].map((value) => ({ type: 'insert' as const, value }))
  const collection = createCollection<CallRow, string>({
    id: next('by-hand'),
    getKey: (row) => row.id,
    gcTime: 0,
    sync: {
      sync: (given) => {
        controls = given
        write(all())
        given.markReady()
        return () => {
          controls = undefined
        }
      },
    },
    onUpdate: async ({ transaction }) => {
      await Promise.resolve()
      for (const { modified } of transaction.mutations) {
        if (modified.error === 'refused') throw new Error('refused')
        server.set(modified.id, { ...modified })
        write([{ type: 'update', value: { ...modified } }])
      }
    },
  })
  return {
    collection,
    add(row: CallRow) {
      server.set(row.id, row)
      write([{ type: 'insert', value: row }])
    },
    refetch: () => write(all(), true),
    fail: () => (controls as unknown as { markError?: () => void } | undefined)?.markError?.(),
  }
}

const step = fc.oneof(
  fc.record({ kind: fc.constant('add' as const) }),
  fc.record({ kind: fc.constant('touch' as const), row: fc.nat(9), refused: fc.boolean() }),
  fc.record({ kind: fc.constant('refetch' as const) }),
  fc.record({ kind: fc.constant('fail' as const) }),
  fc.record({ kind: fc.constant('turn' as const) }),
)

test('a row is executed exactly once under random touches, truncates and reconnects', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 5, maxLength: 12 }),
      fc.boolean(),
      async (steps, filtered) => {
        const { collection, add, refetch, fail } = syncedByHand()
        const executed: string[] = []
        const rows: string[] = []
        const effect = createToolExecutionEffect({
          query: (q) => {
            const pending = q.from({ tc: collection }).where(({ tc }) => eq(tc.status, 'pending'))
            return filtered ? pending.where(({ tc }) => eq(tc.$synced, true)) : pending
          },
          tools: [searchTool],
          implementations: {
            searchDatabase: async (_args, { toolCallId }) => {
              executed.push(toolCallId)
              await new Promise((resolve) => setImmediate(resolve))
              return { results: [] }
            },
          },
          onExecuting: (row) =>
            collection.update(row.id, (draft) => {
              draft.status = 'executing'
            }),
          onComplete: (row) =>
            collection.update(row.id, (draft) => {
              draft.status = 'completed'
            }),
          onEffectError: () => undefined,
        })
        try {
          for (const one of steps) {
            if (one.kind === 'add') {
              const row = pendingCall('g')
              rows.push(row.id)
              add(row)
            } else if (one.kind === 'touch') {
              const id = rows[one.row % Math.max(rows.length, 1)]
              if (id === undefined || collection.status === 'error' || !collection.has(id)) continue
              const touched = collection.update(id, (draft) => {
                draft.error = one.refused ? 'refused' : next('touch')
              })
              touched.isPersisted.promise.catch(() => undefined)
            } else if (one.kind === 'refetch') refetch()
            else if (one.kind === 'fail') fail()
            else await new Promise((resolve) => setImmediate(resolve))
          }
          await pollUntil(
            `every row executed: ${executed.length} of ${rows.length}, ${collection.status}`,
            () => executed.length >= rows.length,
            1500,
          )
          for (let turn = 0; turn < 5; turn += 1)
            await new Promise((resolve) => setImmediate(resolve))
          expect(executed.toSorted()).toEqual(rows.toSorted())
        } finally {
          await effect.dispose()
          await collection.cleanup()
        }
      },
    ),
    {
      numRuns: Number(process.env.FUZZ_RUNS ?? 60),
      endOnFailure: true,
      interruptAfterTimeLimit: 40000,
    },
  )
}, 60_000)
