/**
 * A worker stopped (SIGSTOP) past its lease and continued. Its connection stays, and with it its advisory lock, so
 * only the lease tells. When it wakes in the middle of a sentence it can write nothing: no row and no stream byte.
 */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { FaultPoint } from '../../src/runner/agent-run.js'
import { generationStreamUrl } from '../../src/streams/stream-address.js'
import { EFFECTS_TABLE } from '../support/child-worker-agents.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { pollUntil } from '../support/poll-until.js'
import { spawnWorkerProcess, type WorkerProcess } from '../support/worker-process.js'
import { generationRow, messageRows, say, startReader, untilSettled } from '../worker/turn-world.js'

const LEASE_MS = 1_500
let database: TestDatabase
let paused: WorkerProcess
let other: WorkerProcess

beforeAll(async () => {
  const spawned = Promise.all([spawnWorkerProcess(), spawnWorkerProcess()])
  database = await createTestDatabase()
  await database.sql.unsafe(EFFECTS_TABLE)
  ;[paused, other] = await spawned
})

afterAll(() => Promise.all([paused.kill(), other.kill()]))

/** Every row of every table but the leases, as text. */
async function allRows(): Promise<string[]> {
  const dumps = ['sessions', 'messages', 'generations', 'tool_calls', 'chunks', 'approvals'].map(
    async (table) => {
      const rows = await database.sql.unsafe(
        `select xmin::text || ctid::text || to_jsonb(r)::text as row from ai_db.${table} r`,
      )
      return rows.map(({ row }) => `${table} ${String(row)}`).sort()
    },
  )
  const effects = await database.sql`select to_jsonb(e)::text as row from effects e`
  return [...(await Promise.all(dumps)).flat(), ...effects.map((row) => String(row.row)).sort()]
}

/** Where the stream ends; undefined without one. */
async function streamEnd(generationId: string, streamsUrl: string | undefined) {
  if (streamsUrl === undefined) return undefined
  const response = await fetch(generationStreamUrl({ streamsUrl, generationId }), {
    method: 'HEAD',
  })
  return { status: response.status, offset: response.headers.get('stream-next-offset') }
}

async function writesNothing(point: FaultPoint, nth: number, streamsUrl: string | undefined) {
  const { db, sql, url: databaseUrl } = database
  const name = `paused-${point}-${streamsUrl ? 'stream' : 'rows'}`
  const config = {
    databaseUrl,
    streamsUrl,
    agents: [{ name, script: 'two-lookups' as const }],
    options: { leaseMs: LEASE_MS, shutdownGraceMs: 0 },
  }
  const first = await paused.serve({ ...config, faults: [{ point, nth, action: 'stop' }] })
  const { generationId, sessionId } = await say(db, 'Look both up', { targetAgent: name })
  await first.events.untilType('claimed')
  const reader = startReader(db, generationId, { streamsUrl: streamsUrl ?? null })
  const second = await other.serve(config)
  const [locked] = await pollUntil('the paused worker’s lease being over', () =>
    sql<{ held: boolean }[]>`
      select exists (select 1 from pg_locks where locktype = 'advisory' and granted
          and pid in (select pid from pg_stat_activity where datname = current_database())
          and (classid::bigint << 32 | objid::bigint)
            = hashtextextended('ai_db:' || ${first.workerId}::text, 0)) as held
        from (select 1) one
       where not exists (select 1 from ai_db.workers where id = ${first.workerId})`.then(
      (rows) => rows.length > 0 && rows,
    ),
  )
  expect(locked!.held, 'the lock is held still: the lease alone told').toBe(true)
  const { content } = await untilSettled(db, generationId)
  expect((await reader.ended).text).toBe(content)
  await second.stop()
  const before = { rows: await allRows(), stream: await streamEnd(generationId, streamsUrl) }

  paused.signal('SIGCONT')
  const lost = await first.events.untilType('lease-lost')
  expect(lost.workerId).toBe(first.workerId)
  await pollUntil('the run of the paused worker ending', () =>
    first.events.all.some((event) => ['fenced', 'put-down'].includes(event.type)),
  )
  expect(first.events.of('fenced')).toMatchObject([{ generationId, attempt: 1 }])
  const anew = await first.events.untilType('started', 2)
  expect(anew.workerId).not.toBe(first.workerId)
  expect({ rows: await allRows(), stream: await streamEnd(generationId, streamsUrl) }).toEqual(
    before,
  )
  expect(await generationRow(sql, generationId)).toMatchObject({ status: 'completed', attempt: 2 })

  // And now it serves again, as somebody new.
  const next = await say(db, 'Again', { sessionId, targetAgent: name })
  expect(await untilSettled(db, next.generationId)).toMatchObject({ status: 'completed' })
  expect((await generationRow(sql, next.generationId)).worker_id).toBe(anew.workerId)
  expect(await messageRows(sql, sessionId)).toHaveLength(4)
  await first.stop()
}

describe('a worker stopped past its lease and continued writes no row and no stream byte', () => {
  test.each([
    ['mid-text', 35],
    ['after-side-effect', 1],
    ['before-step', 2],
    ['before-cutover', 1],
  ] as const)('at %s, and serves the next message as a new member', (point, nth) =>
    writesNothing(point, nth, inject('streamsUrl')),
  )

  test('mid-text without a stream server', () => writesNothing('mid-text', 35, undefined))
})
