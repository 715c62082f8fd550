/** Limits per concurrency key: a slot is a row's state, so no key is exceeded and no slot outlives its holder. */
import { beforeAll, describe, expect, it } from 'vitest'
import { createStore } from '../../src/claims/store.js'
import { holdConnection } from '../support/connections.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { answer, scenario, type Scenario } from './rows.js'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})

const LIMIT = 2
const limited = { concurrencyPerKey: LIMIT }

async function backlog(here: Scenario, keys: readonly string[], each: number): Promise<void> {
  for (const concurrencyKey of keys) {
    for (let nth = 0; nth < each; nth += 1) await here.say(await here.session({ concurrencyKey }))
  }
}

/** How many of each key run, as anybody sees it from outside. */
const running = (sql: TestDatabase['sql'], agent: string) => sql<{ key: string; runs: number }[]>`
  select concurrency_key as key, count(*)::int as runs from ai_db.generations
  where status = 'generating' and agent_name = ${agent} group by 1`

describe('concurrencyPerKey', () => {
  it('ten claimers over five keys never exceed two of a key, whatever dies on the way', async () => {
    const here = scenario(database)
    const keys = ['a', 'b', 'c', 'd', 'e']
    await backlog(here, keys, 12)
    const observer = await holdConnection(database.url)
    let working = true
    let most = 0
    const observing = (async () => {
      while (working) {
        for (const { runs } of await running(observer.sql, here.agent)) most = Math.max(most, runs)
      }
    })()
    const claimers = Array.from({ length: 10 }, async (_, nth) => {
      const store = createStore(database.connect(1))
      let workerId = await here.worker()
      for (let idle = 0; idle < 20;) {
        const runs = await here.claim(workerId, { store, limit: 3, ...limited })
        idle = runs.length === 0 ? idle + 1 : 0
        for (const run of runs) {
          if (run.attempt === 1 && (nth + run.inbox.length) % 3 === 0) {
            await store.releaseGeneration({ generationId: run.id, attempt: 1 })
          } else if (run.attempt === 1 && nth % 3 === 1) {
            // Killed with all it holds: somebody else recovers it.
            await here.store.recoverWorkers([workerId])
            workerId = await here.worker()
            break
          } else {
            await store.settleGeneration(answer(run))
          }
        }
      }
    })
    await Promise.all(claimers)
    working = false
    await observing
    for (;;) {
      const rest = await here.claim('last', limited)
      if (rest.length === 0) break
      for (const run of rest) await here.store.settleGeneration(answer(run))
    }
    const [left] = await database.sql`
      select count(*)::int as count from ai_db.generations
      where agent_name = ${here.agent} and status <> 'completed'`
    expect(left).toEqual({ count: 0 })
    expect(most).toBe(LIMIT)
  })

  it('a claim takes up to the limit of each key at once, and fills it up when a slot is free', async () => {
    const here = scenario(database)
    await backlog(here, ['x', 'y'], 3)
    const first = await here.claim('w', limited)
    expect(first).toHaveLength(4)
    expect(await here.claim('w', limited)).toEqual([])
    await here.store.settleGeneration(answer(first[0]!))
    expect(await here.claim('w', limited)).toHaveLength(1)
  })

  it.each([
    ['settled', (here: Scenario, run: Run) => here.store.settleGeneration(answer(run))],
    ['cancelled', (here: Scenario, run: Run) => here.store.cancelGeneration(run.id)],
    ['released', (here: Scenario, run: Run) => delayed(here, run)],
    [
      'put down',
      async (here: Scenario, run: Run) => {
        const holder = { ...run, workerId: 'w', messageId: '' }
        await here.calls(holder, 1, 'pending')
        await here.store.putDownGeneration(run.id, run.attempt, 'tools')
      },
    ],
    [
      'recovered',
      async (here: Scenario, run: Run) => {
        await here.store.recoverWorkers([])
        await database.sql`
          update ai_db.generations set run_at = now() + interval '1 h' where id = ${run.id}`
      },
    ],
  ])('a slot is free again as soon as its run is %s', async (how, end) => {
    const here = scenario(database)
    await backlog(here, [`slot ${how}`], 2)
    const [run] = await here.claim('w', { concurrencyPerKey: 1 })
    expect(await here.claim('w', { concurrencyPerKey: 1 })).toEqual([])
    await end(here, run!)
    const next = await here.claim('w', { concurrencyPerKey: 1 })
    expect(next.map(({ id }) => id === run!.id)).toEqual([false])
  })

  it('the unique index refuses a third holder from any writer', async () => {
    const here = scenario(database)
    await backlog(here, ['full'], 3)
    await here.claim('w', limited)
    const third = database.sql`
      update ai_db.generations set status = 'generating', attempt = 1, worker_id = 'psql', concurrency_slot = 1
      where agent_name = ${here.agent} and status = 'pending'`
    await expect(third).rejects.toMatchObject({
      constraint_name: 'generations_concurrency_slot_key',
    })
  })

  it('generations without a key are not limited, and one full key does not stop another', async () => {
    const here = scenario(database)
    await backlog(here, ['full key'], 4)
    for (let nth = 0; nth < 4; nth += 1) await here.say(await here.session())
    await backlog(here, ['free key'], 1)
    const first = await here.claim('w', { limit: 4, ...limited })
    const second = await here.claim('w', { limit: 100, ...limited })
    expect(first.length + second.length).toBe(2 + 4 + 1)
  })

  it('a run claimed without a limit holds no slot of one claimed with it', async () => {
    const here = scenario(database)
    await backlog(here, ['mixed'], 3)
    await here.claim('w', { limit: 1 })
    expect(await here.claim('w', limited)).toHaveLength(2)
  })
})

interface Run {
  id: string
  attempt: number
  sessionId: string
}

const delayed = (here: Scenario, run: Run) =>
  here.store.releaseGeneration({ generationId: run.id, attempt: run.attempt, delayMs: 60_000 })
