/**
 * Postgres killed or restarted, again and again, while turns run. Workers come back by themselves and go on from
 * the rows: every message is answered exactly once, and no tool that had reported runs again.
 */
import { rm } from 'node:fs/promises'
import { drizzle } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startPostgres, type EmbeddedPostgres } from '../../src/dev/postgres.js'
import { ensureDatabase } from '../../src/dev/database.js'
import { migrate } from '../../src/migrate.js'
import type { ToolContext } from '../../src/tools/run-tool.js'
import { pollUntil } from '../support/poll-until.js'
import { makeTempDir } from '../support/stack.js'
import { waitUntilGone } from '../dev/processes.js'
import { say, scripted, startReader, startWorker } from '../worker/turn-world.js'

let dataDir: string
let server: EmbeddedPostgres
let url: string
let sql: postgres.Sql
let pools: postgres.Sql[] = []

const connect = () => {
  // Two habits of postgres.js: it asks for types on each new connection, and lets nobody catch it when that one
  // breaks; and after some refused connections it waits up to 20 s before the next try.
  const patient = { fetch_types: false, backoff: () => 0.1 }
  const client = postgres(url, { ...patient, max: 8, onnotice: () => undefined })
  pools.push(client)
  return drizzle({ client })
}

beforeAll(async () => {
  dataDir = await makeTempDir('restart')
  server = await startPostgres({ dataDir, port: 0 })
  url = await ensureDatabase(server.serverUrl, 'restarts')
  const db = connect()
  await migrate(db)
  sql = db.$client
})

afterAll(async () => {
  await Promise.all(pools.map((pool) => pool.end({ timeout: 1 })))
  pools = []
  await server.stop()
  await rm(dataDir, { recursive: true, force: true })
})

async function restart(how: 'kill -9' | 'graceful'): Promise<void> {
  const { port, pid } = server
  if (how === 'graceful') await server.stop()
  else {
    process.kill(pid, 'SIGKILL')
    await server.exited
    await waitUntilGone(pid)
  }
  server = await startPostgres({ dataDir, port })
}

/** The database may be away at any moment: asks until it answers. */
const asked = <T>(what: string, ask: () => Promise<T>) =>
  pollUntil(what, () => ask().catch(() => undefined))

interface Deed {
  id: string
  attempt: number
}

/** An agent of one tool; `at` is told when a moment comes, and may hold it. */
function agentOfOneTool(deeds: Deed[], at: (moment: 'mid-text' | 'mid-tool') => Promise<void>) {
  const lookup = {
    name: 'lookup',
    description: 'Looks up',
    execute: async (_args: never, { toolCallId: id, attempt }: ToolContext) => {
      deeds.push({ id, attempt })
      await at('mid-tool')
      return { found: 42 }
    },
  }
  return scripted(
    ({ messages }) => {
      const last = messages.at(-1)!
      if (last.role !== 'tool')
        return { text: 'I will look.', toolCalls: [{ name: 'lookup', args: {} }] }
      return {
        text: `It is ${String(last.content)}, and that is all there is to it.`,
        beforeToken: (index) => (index === 5 ? at('mid-text') : undefined),
      }
    },
    { tools: [lookup], retryDelayMs: () => 50 },
  ).agent
}

describe('Postgres', () => {
  test.each([
    ['mid-text', 'kill -9'],
    ['mid-text', 'graceful'],
    ['mid-tool', 'kill -9'],
    ['mid-tool', 'graceful'],
    ['before-cutover', 'kill -9'],
    ['after-cutover', 'graceful'],
  ] as const)(
    'restarted %s by %s: the same worker goes on, one answer, one execution',
    async (moment, how) => {
      const deeds: Deed[] = []
      let restarting: Promise<void> | undefined
      const at = async (now: string) => {
        if (now === moment) await (restarting ??= restart(how))
      }
      const worker = { db: connect(), agents: [agentOfOneTool(deeds, at)], leaseMs: 10_000 }
      const { events } = await startWorker(
        { ...worker, onFaultPoint: at, pollIntervalMs: 60_000 },
        { allowErrors: true },
      )
      const { generationId, sessionId } = await say(drizzle({ client: sql }), 'Look')
      const reader = startReader(connect(), generationId)
      // A reader whose database went away ends with an error: another one takes its place.
      const last = await reader.ended.catch(async () => {
        await events.untilType('completed')
        return startReader(connect(), generationId).ended
      })
      expect(last).toMatchObject({
        status: 'completed',
        text: 'I will look.\n\nIt is {"found":42}, and that is all there is to it.',
      })
      expect(restarting, 'the database was restarted').toBeDefined()
      const rows = await asked(
        'the messages',
        () => sql`
        select role, processed from ai_db.messages where session_id = ${sessionId} order by seq`,
      )
      expect(rows.map(({ role, processed }) => [role, processed])).toEqual([
        ['user', true],
        ['assistant', true],
      ])
      expect(deeds).toEqual([{ id: deeds[0]!.id, attempt: 1 }])

      // The doorbell is back: the next message is not left to the poll, which is a minute away.
      await pollUntil('one listening connection, the lock and the watch', async () => {
        const [row] = await sql`
          select count(*)::int as n from pg_locks
           where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`
        return row!.n === 1
      })
      const next = await say(drizzle({ client: sql }), 'And again', { sessionId })
      await events.until(
        'the next answer',
        (event) => event.type === 'completed' && event.generationId === next.generationId,
        1,
        10_000,
      )
    },
  )

  test('restarted every moment under two workers and forty turns: each is answered exactly once', async () => {
    const deeds: Deed[] = []
    const agents = () => [agentOfOneTool(deeds, () => Promise.resolve())]
    const options = { pollIntervalMs: 1_000, leaseMs: 3_000, slots: 4 }
    for (let n = 0; n < 2; n += 1) {
      await startWorker({ ...options, db: connect(), agents: agents() }, { allowErrors: true })
    }
    const db = drizzle({ client: sql })
    let sent = 0
    const sending = (async () => {
      for (; sent < 40; sent += 1) {
        const id = `storm-${sent}`
        // A send whose fate is unknown is sent again under its own id.
        await asked(
          'a session',
          () => sql`insert into ai_db.sessions (id) values (${id}) on conflict do nothing`,
        )
        await asked('a message', async () => {
          const [there] = await sql`select 1 from ai_db.messages where id = ${id}`
          return there ?? say(db, `Look ${id}`, { id, sessionId: id, queueForUnknownAgent: true })
        })
      }
    })()
    for (const [at, how] of [
      [8, 'kill -9'],
      [16, 'graceful'],
      [24, 'kill -9'],
    ] as const) {
      await pollUntil(`${at} messages`, () => sent >= at)
      await restart(how)
    }
    await sending
    const counts = () =>
      sql`select count(*) filter (where status = 'completed')::int as completed,
            count(*) filter (where status not in ('completed'))::int as other
            from ai_db.generations where session_id like 'storm-%'`
    await pollUntil('every generation ending', async () => {
      const rows = await counts().catch(() => undefined)
      return rows?.[0]?.completed === 40
    })
    expect(await counts()).toMatchObject([{ completed: 40, other: 0 }])
    const answers = await sql`
      select session_id, count(*)::int as n from ai_db.messages
       where role = 'assistant' and session_id like 'storm-%' group by 1 having count(*) <> 1`
    expect(answers).toEqual([])
    const calls = await sql<{ id: string; attempt: number }[]>`
      select id, attempt from ai_db.tool_calls where session_id like 'storm-%'`
    expect(calls).toHaveLength(40)
    const executions = (id: string) => deeds.filter((deed) => deed.id === id).map((d) => d.attempt)
    for (const { id, attempt } of calls) {
      const attempts = executions(id)
      expect(new Set(attempts).size, `attempts of ${id}: ${attempts}`).toBe(attempts.length)
      expect(attempts.at(-1), 'the last attempt settled it').toBe(attempt)
    }
  }, 60_000)
})
