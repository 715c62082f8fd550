/** `postgresLifecycle`: many clients and processes, one holder a runner; and checkpoints that nobody can turn back. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { beforeAll, describe, expect, it, onTestFinished, test } from 'vitest'
import { compareCursors } from '../../src/contract/cursor-order.js'
import type { RunnerWake } from '../../src/contract/lifecycle.js'
import { postgresLifecycle } from '../../src/runner/postgres-lifecycle.js'
import { runWithLifecycle } from '../../src/runner/run-with-lifecycle.js'
import { lifecycleConformance } from '../../src/testing/lifecycle-conformance.js'
import { memoryLifecycle } from '../../src/testing/memory-lifecycle.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { pollUntil } from '../support/poll-until.js'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})

const signal = new AbortController().signal
const newWake = (): RunnerWake => ({ runnerId: `runner ${randomUUID()}`, wakeId: randomUUID() })
const numbered = (count: number) =>
  Array.from({ length: count }, (_, place) => ({ source: 'topic/0', cursor: String(place + 9) }))
const lifecycle = (options: { leaseMs?: number } = {}) =>
  postgresLifecycle({ db: database.db, ...options })
const expire = (runnerId: string) =>
  database.sql`update ai_db.checkpoints set lease_expires_at = 'epoch' where runner_id = ${runnerId} and source = ''`

describe('postgresLifecycle conforms', () => {
  const harness = {
    createAdapter: () => lifecycle(),
    createWake: async () => newWake(),
    takeOver: async (wake: RunnerWake) => {
      await expire(wake.runnerId)
      await lifecycle().claimWake(wake, { signal })
    },
    checkpoints: async (_wake: RunnerWake, count: number) => numbered(count),
  }
  for (const { name, run } of lifecycleConformance(harness)) test(name, run)
})

describe('memoryLifecycle conforms', () => {
  const memory = memoryLifecycle()
  const harness = {
    createAdapter: () => memory.fork(),
    createWake: async () => newWake(),
    takeOver: async (wake: RunnerWake) => {
      memory.expire(wake.runnerId)
      await memory.claimWake(wake, { signal })
    },
    checkpoints: async (_wake: RunnerWake, count: number) => numbered(count),
  }
  for (const { name, run } of lifecycleConformance(harness)) test(name, run)
})

describe('a lease', () => {
  it('that ran out is still the holder’s until somebody claims, and a heartbeat renews it', async () => {
    const wake = newWake()
    const state = { wake, ...(await lifecycle().claimWake(wake, { signal })) }
    await expire(wake.runnerId)
    await lifecycle().heartbeat!(state)
    await expect(lifecycle().claimWake(wake, { signal })).rejects.toMatchObject({
      code: 'WAKE_REJECTED',
    })
  })

  it('a wake that was completed is refused when it is delivered late; one with more to do is not', async () => {
    const wake = newWake()
    const adapter = lifecycle()
    const complete = (done: boolean) =>
      runWithLifecycle(wake, adapter, (session) => session.complete({ done }))
    await complete(false)
    await complete(true)
    await expect(complete(true)).rejects.toMatchObject({ code: 'WAKE_REJECTED' })
    await runWithLifecycle({ ...wake, wakeId: 'the next' }, adapter, async () => {})
  })

  it('wakes without a name are never taken for each other', async () => {
    const wake = { runnerId: randomUUID() }
    for (let times = 0; times < 2; times += 1) {
      await runWithLifecycle(wake, lifecycle(), (session) => session.complete({ done: true }))
    }
  })

  it('each claim of any client raises the fence by one: 20 clients, 200 wakes, never two at once', async () => {
    const runnerId = randomUUID()
    const clients = Array.from({ length: 20 }, () => postgresLifecycle({ db: database.connect(1) }))
    const fences: number[] = []
    let inside = 0
    let left = 200
    const compete = async (client: (typeof clients)[number]) => {
      while (left > 0) {
        const won = await runWithLifecycle({ runnerId }, client, async (session) => {
          inside += 1
          expect(inside).toBe(1)
          left -= 1
          fences.push(Number(session.fenceToken))
          await session.checkpoint([{ source: 's', cursor: session.fenceToken! }])
          inside -= 1
          return true
        }).catch((thrown: { code?: string }) => {
          if (thrown.code !== 'WAKE_REJECTED') throw thrown
        })
        // The loser of a claim comes back when somebody has moved.
        if (!won) await clients[0]!.readCheckpoints(runnerId)
      }
    }
    await Promise.all(clients.map(compete))
    expect(fences).toEqual(fences.map((_, place) => place + 1))
    expect(await lifecycle().readCheckpoints(runnerId)).toEqual([
      { source: 's', cursor: String(fences.length) },
    ])
  })

  it('of a process that was killed runs out, and another goes on from its checkpoint', async () => {
    const wake = newWake()
    const child = fork(
      fileURLToPath(new URL('./lease-holder.ts', import.meta.url)),
      [database.url, JSON.stringify(wake)],
      { execArgv: ['--import', 'tsx'] },
    )
    onTestFinished(() => void child.kill('SIGKILL'))
    const [told] = await once(child, 'message')
    expect(told).toBe('checkpointed 1')
    const adapter = lifecycle({ leaseMs: 1_000 })
    await expect(adapter.claimWake(wake, { signal })).rejects.toMatchObject({
      code: 'WAKE_REJECTED',
    })
    child.kill('SIGKILL')
    await once(child, 'exit')
    const fence = await pollUntil('the lease of a dead process to run out', () =>
      adapter.claimWake(wake, { signal }).catch(() => undefined),
    )
    expect(fence.fenceToken).toBe('2')
    expect(await adapter.readCheckpoints(wake.runnerId)).toEqual([{ source: 's', cursor: '1' }])
  })
})

describe('checkpoints', () => {
  it('are kept all or none', async () => {
    const wake = newWake()
    const adapter = lifecycle()
    const state = { wake, ...(await adapter.claimWake(wake, { signal })) }
    await adapter.checkpoint!([{ source: 'b', cursor: '5' }], state)
    const batch = [
      { source: 'a', cursor: '1' },
      { source: 'b', cursor: '4' },
      { source: 'c', cursor: '1' },
    ]
    await expect(adapter.checkpoint!(batch, state)).rejects.toMatchObject({
      code: 'CHECKPOINT_REGRESSED',
      field: 'cursor',
    })
    expect(await adapter.readCheckpoints(wake.runnerId)).toEqual([{ source: 'b', cursor: '5' }])
  })

  it('of one holder at once end with the furthest: what is refused is refused, whoever waits', async () => {
    const wake = newWake()
    const adapter = postgresLifecycle({ db: database.connect(8) })
    const state = { wake, ...(await adapter.claimWake(wake, { signal })) }
    const cursors = Array.from({ length: 40 }, (_, place) => String((place * 7) % 40))
    const outcomes = await Promise.allSettled(
      cursors.map((cursor) => adapter.checkpoint!([{ source: 's', cursor }], state)),
    )
    for (const one of outcomes) {
      if (one.status === 'rejected')
        expect(one.reason).toMatchObject({ code: 'CHECKPOINT_REGRESSED' })
    }
    expect(await adapter.readCheckpoints(wake.runnerId)).toEqual([{ source: 's', cursor: '39' }])
  })

  it('cannot be turned back by any writer, nor the fence lowered', async () => {
    const wake = newWake()
    const adapter = lifecycle()
    await runWithLifecycle(wake, adapter, (session) =>
      session.checkpoint([{ source: 's', cursor: '10' }]),
    )
    const { sql } = database
    const back = sql`update ai_db.checkpoints set cursor = '9' where runner_id = ${wake.runnerId} and source = 's'`
    await expect(back).rejects.toMatchObject({ code: 'AI008' })
    const lowered = sql`update ai_db.checkpoints set attempt = 0 where runner_id = ${wake.runnerId}`
    await expect(lowered).rejects.toMatchObject({ code: 'AI001' })
    const leased = sql`update ai_db.checkpoints set lease_expires_at = now() where runner_id = ${wake.runnerId} and source = 's'`
    await expect(leased).rejects.toMatchObject({ constraint_name: 'checkpoints_lease_check' })
  })

  it('may be forgotten, and the source is read anew', async () => {
    const wake = newWake()
    const adapter = lifecycle()
    const record = (cursor: string) =>
      runWithLifecycle(wake, adapter, (session) => session.checkpoint([{ source: 's', cursor }]))
    await record('10')
    await expect(record('1')).rejects.toMatchObject({ code: 'CHECKPOINT_REGRESSED' })
    expect(await adapter.forgetCheckpoint(wake.runnerId, 's')).toBe(true)
    await record('1')
    expect(await adapter.forgetCheckpoint(wake.runnerId, 'unknown')).toBe(false)
  })

  it('have one order, in TypeScript and in Postgres', async () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 6 })
    const cursor = fc
      .oneof(
        text,
        fc.stringMatching(/^0?[0-9]{1,20}$/),
        fc.constantFrom('-1', '\uE000', '😀', '0000000000000001_0000000000000024'),
      )
      .filter((it) => !it.includes('\0') && it.isWellFormed())
    const pairs = fc.sample(fc.tuple(cursor, cursor), 2_000)
    const rows = await database.sql<{ a: string; b: string; before: boolean; after: boolean }[]>`
      select a, b, ai_db.cursor_precedes(a, b) as before, ai_db.cursor_precedes(b, a) as after
      from unnest(${pairs.map(([a]) => a)}::text[], ${pairs.map(([, b]) => b)}::text[]) as pair (a, b)`
    const wrong = rows.filter(
      ({ a, b, before, after }) =>
        Math.sign(compareCursors(a, b)) !== Number(after) - Number(before),
    )
    expect(wrong).toEqual([])
  })

  it('of random batches, by holders that come and go, never go back in the table', async () => {
    const one = fc.record({
      source: fc.constantFrom('s', 't'),
      cursor: fc.oneof(fc.nat(30).map(String), fc.constantFrom('a', 'b', '007')),
    })
    const holder = fc.array(fc.array(one, { maxLength: 3 }), { maxLength: 4 })
    await fc.assert(
      fc.asyncProperty(fc.array(holder, { maxLength: 4 }), async (holders) => {
        const wake = newWake()
        const last = new Map<string, string>()
        for (const batches of holders) {
          const adapter = lifecycle()
          const state = { wake, ...(await adapter.claimWake(wake, { signal })) }
          for (const batch of batches) {
            await adapter.checkpoint!(batch, state).catch((thrown: { code?: string }) => {
              expect(thrown.code).toBe('CHECKPOINT_REGRESSED')
            })
            for (const { source, cursor } of await adapter.readCheckpoints(wake.runnerId)) {
              expect(compareCursors(cursor, last.get(source) ?? cursor)).toBeGreaterThanOrEqual(0)
              last.set(source, cursor)
            }
          }
          await adapter.fail!(state, new Error('next'))
        }
      }),
      { numRuns: 25 },
    )
  })
})

describe('bad input', () => {
  it('is refused with the field', async () => {
    const adapter = lifecycle()
    const wakeless = adapter.claimWake({ runnerId: '' }, { signal })
    await expect(wakeless).rejects.toMatchObject({ code: 'INVALID_INPUT', field: 'runnerId' })
    expect(() => lifecycle({ leaseMs: 1 })).toThrow('leaseMs')
    expect(() => postgresLifecycle({ db: database.db, leasMs: 1 } as never)).toThrow(
      "did you mean 'leaseMs'?",
    )
  })
})
