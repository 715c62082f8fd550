/** A worker's life: stopped, cancelled, deprived of its lease, deaf, limited, on another driver, and among many. */
import { drizzle as drizzleNodePostgres } from 'drizzle-orm/node-postgres'
import { drizzle } from 'drizzle-orm/postgres-js'
import pg from 'pg'
import postgres from 'postgres'
import { beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { cancelGeneration } from '../../src/claims/cancel.js'
import { defineAgent } from '../../src/agent/define-agent.js'
import type { AgentOptions } from '../../src/agent/agent-options.js'
import { AiDbError } from '../../src/errors.js'
import { toDatabase } from '../../src/internal/database.js'
import { migrate } from '../../src/migrate.js'
import { createWorker, type WorkerOptions } from '../../src/runner/worker.js'
import { scriptedAdapter, type ScriptedTurn } from '../../src/testing.js'
import { EFFECTS_TABLE, STORY } from '../support/child-worker-agents.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { pollUntil } from '../support/poll-until.js'
import { spawnWorkerProcess, type WorkerProcess } from '../support/worker-process.js'
import { startDeafProxy } from './deaf-proxy.js'
import {
  generationRow,
  messageRows,
  say,
  scripted,
  startExecutor,
  startReader,
  startWorker,
  toolCallRows,
  untilSettled,
} from './turn-world.js'

const TEXT = 'One two three four five six seven eight nine ten.'
let database: TestDatabase

beforeAll(async () => {
  database = await createTestDatabase()
  await database.sql.unsafe(EFFECTS_TABLE)
})

function signal() {
  let give!: () => void
  const given = new Promise<void>((resolve) => (give = resolve))
  return { given, give }
}

/** A turn that stands still at a token until it is let go. */
function heldTurn(token = 4, text = TEXT) {
  const [reached, released] = [signal(), signal()]
  const beforeToken = (index: number) => {
    if (index !== token) return
    reached.give()
    return released.given
  }
  const turn: ScriptedTurn = { text, beforeToken }
  return { turn, reached: reached.given, release: released.give }
}

const cancel = (generationId: string) =>
  cancelGeneration(toDatabase(database.connect(1)), generationId)

describe('cancel', () => {
  test('mid-text, from another connection: the run ends at once and its words are kept, marked partial', async () => {
    const { turn, reached } = heldTurn()
    const { agent } = scripted([turn, { text: 'Next.' }])
    const { events } = await startWorker({
      db: database.db,
      agents: [agent],
      pollIntervalMs: 60_000,
    })
    const { generationId, sessionId } = await say(database.db, 'Tell')
    const reader = startReader(database.db, generationId)
    await reached
    expect(await cancel(generationId)).toBe(true)
    await events.untilType('cancelled')
    const rows = await pollUntil('the partial message', async () => {
      const found = await messageRows(database.sql, sessionId)
      return found.length === 2 && found
    })
    expect(rows[0]).toMatchObject({ role: 'user', processed: true, processed_by: generationId })
    expect(rows[1]).toMatchObject({
      role: 'assistant',
      content: 'One two three four',
      metadata: { partial: true },
      processed: true,
    })
    expect(await generationRow(database.sql, generationId)).toMatchObject({
      status: 'cancelled',
      cancel_reason: 'by-user',
    })
    expect(await reader.ended).toMatchObject({ status: 'cancelled', text: 'One two three four' })
    expect(await cancel(generationId), 'it had ended already').toBe(false)
    const next = await say(database.db, 'And?', { sessionId })
    expect(await untilSettled(database.db, next.generationId)).toMatchObject({ content: 'Next.' })
  })

  test('while another process runs its tool: the call is cancelled, the late result discarded', async () => {
    const [began, goOn] = [signal(), signal()]
    const slow = { name: 'slow', description: 'Slow' }
    const { agent } = scripted([{ toolCalls: [{ name: 'slow', args: {} }] }], {
      tools: [slow],
      parkAfterMs: 0,
    })
    const { events } = await startWorker({ db: database.db, agents: [agent] })
    const { generationId } = await say(database.db, 'Slow')
    await events.untilType('put-down')
    const executor = await startExecutor({
      db: database.db,
      tools: [{ ...slow, execute: async () => (began.give(), await goOn.given, 'late') }],
    })
    await began.given
    await cancel(generationId)
    goOn.give()
    expect(await executor.events.untilType('tool-settled')).toMatchObject({ status: 'fenced' })
    expect(await toolCallRows(database.sql, generationId)).toMatchObject([
      { status: 'cancelled', cancel_reason: 'by-user', result: null },
    ])
  })

  test('before the claim: nobody runs it, its message is done with, the next one is answered', async () => {
    const { adapter, agent } = scripted([{ text: 'Only this.' }])
    const first = await say(database.db, 'Never mind')
    expect(await cancel(first.generationId)).toBe(true)
    const { sessionId } = first
    const next = await say(database.db, 'But this', { sessionId })
    await startWorker({ db: database.db, agents: [agent] })
    expect(await untilSettled(database.db, next.generationId)).toMatchObject({
      content: 'Only this.',
    })
    expect(adapter.calls).toHaveLength(1)
    expect((await messageRows(database.sql, sessionId)).every((row) => row.processed)).toBe(true)
  })
})

describe('stop', () => {
  test('lets running work finish within the grace, and claims nothing more', async () => {
    const { turn, reached, release } = heldTurn()
    const { agent } = scripted([turn])
    const { worker, events } = await startWorker({
      db: database.db,
      agents: [agent],
      shutdownGraceMs: 20_000,
    })
    const { generationId, sessionId } = await say(database.db, 'Tell')
    await reached
    const stopped = worker.stop()
    expect(worker.stop(), 'stopping twice is stopping once').toBe(stopped)
    const later = await say(database.db, 'Later', { sessionId })
    release()
    await stopped
    expect(events.all.at(-1)?.type).toBe('stopped')
    expect(await untilSettled(database.db, generationId)).toMatchObject({ content: TEXT })
    expect((await generationRow(database.sql, later.generationId)).status).toBe('pending')
    await cancel(later.generationId)
  })

  test('puts down what does not finish in time: no attempt is counted, another worker goes on at once', async () => {
    const { turn, reached } = heldTurn()
    const one = scripted([turn])
    const first = await startWorker({ db: database.db, agents: [one.agent], shutdownGraceMs: 0 })
    const { generationId } = await say(database.db, 'Tell')
    const reader = startReader(database.db, generationId)
    await reached
    await first.worker.stop()
    expect(first.events.of('put-down')).toMatchObject([{ generationId, reason: 'shutdown' }])
    expect(await generationRow(database.sql, generationId)).toMatchObject({
      status: 'pending',
      attempt: 1,
      attempts_without_progress: 0,
      error: null,
    })
    const two = scripted([{ text: TEXT }])
    await startWorker({ db: database.db, agents: [two.agent] })
    expect(await reader.ended).toMatchObject({ status: 'completed', text: TEXT })
  })

  test('at the end of its scope, by await using', async () => {
    const { agent } = scripted([])
    const count = async () => (await database.sql`select id from ai_db.workers`).length
    {
      await using worker = await createWorker({ db: database.db, agents: [agent] })
      expect(worker.running).toBe(0)
      expect(await count()).toBe(1)
    }
    expect(await count()).toBe(0)
  })

  test('on SIGTERM: the process puts its work down, leaves, and ends by itself', async () => {
    await using child = await spawnWorkerProcess()
    const serving = await child.serve({
      databaseUrl: database.url,
      streamsUrl: inject('streamsUrl'),
      agents: [{ name: 'story', script: 'story' }],
      faults: [{ point: 'mid-text', nth: 8, action: 'report' }],
      options: { handleSignals: true, shutdownGraceMs: 0 },
    })
    const { generationId } = await say(database.db, 'Tell', { targetAgent: 'story' })
    await serving.reached('mid-text', 8)
    child.signal('SIGTERM')
    expect(await child.exited).toMatchObject({ code: 0, signal: null })
    expect(await generationRow(database.sql, generationId)).toMatchObject({
      status: 'pending',
      attempts_without_progress: 0,
    })
    expect(await database.sql`select id from ai_db.workers`).toEqual([])
    const { agent } = scripted([{ text: STORY }], { name: 'story' })
    await startWorker({ db: database.db, agents: [agent] })
    expect(await untilSettled(database.db, generationId)).toMatchObject({ content: STORY })
  })

  test('never waits for the poll, whenever in falling asleep it comes', async () => {
    const { agent } = scripted([])
    for (let n = 0; n < 20; n += 1) {
      const { worker } = await startWorker({
        db: database.db,
        agents: [agent],
        pollIntervalMs: 60_000,
      })
      for (let turns = 0; turns < n; turns += 1) await database.sql`select 1`
      await worker.stop()
    }
  })
})

describe('membership', () => {
  test('a worker whose lease was taken drops what it runs, registers anew and serves on', async () => {
    const { turn, reached, release } = heldTurn()
    const { agent } = scripted([turn, { text: TEXT }])
    const { worker, events } = await startWorker({ db: database.db, agents: [agent], leaseMs: 600 })
    const before = worker.workerId
    const { generationId } = await say(database.db, 'Tell')
    await reached
    await database.sql`delete from ai_db.workers where id = ${before}`
    expect(await events.untilType('lease-lost')).toMatchObject({ workerId: before })
    release()
    expect(await untilSettled(database.db, generationId)).toMatchObject({ content: TEXT })
    expect(worker.workerId).not.toBe(before)
    expect(await events.untilType('fenced')).toMatchObject({ generationId, attempt: 1 })
    const row = await generationRow(database.sql, generationId)
    expect(row).toMatchObject({ attempt: 2, worker_id: worker.workerId })
  })

  test('a message sent at any moment of a worker’s falling asleep is taken up without the poll', async () => {
    const { agent } = scripted(() => ({ text: 'Here.' }))
    for (let n = 0; n < 30; n += 1) {
      const { worker, events } = await startWorker({
        db: database.db,
        agents: [agent],
        pollIntervalMs: 60_000,
      })
      await say(database.db, 'Now')
      await events.untilType('completed')
      await worker.stop()
    }
  })
})

describe('limits', () => {
  test('no more generations of one key at once than concurrencyPerKey, over all workers, nor more than slots', async () => {
    const running = new Map<string, number>()
    const most = new Map<string, number>()
    const enter = (key: string, by: number) => {
      const now = (running.get(key) ?? 0) + by
      running.set(key, now)
      most.set(key, Math.max(now, most.get(key) ?? 0))
    }
    const agentOf = (worker: string) =>
      scripted(
        ({ messages }) => {
          const tenant = String(messages.at(-1)!.content)
          for (const key of [tenant, worker]) enter(key, 1)
          const last = 5
          const beforeToken = (index: number) => {
            if (index === last) for (const key of [tenant, worker]) enter(key, -1)
          }
          return { text: 'a b c d e f', beforeToken }
        },
        { tokensPerSecond: 200 },
      ).agent
    const sent = await Promise.all(
      Array.from({ length: 16 }, (_, n) => {
        const concurrencyKey = `tenant-${n % 2}`
        return say(database.db, concurrencyKey, { session: { concurrencyKey } })
      }),
    )
    for (const name of ['worker-1', 'worker-2']) {
      await startWorker({
        db: database.connect(),
        agents: [agentOf(name)],
        concurrencyPerKey: 2,
        slots: 3,
        pollIntervalMs: 50,
      })
    }
    await Promise.all(sent.map(({ generationId }) => untilSettled(database.db, generationId)))
    for (const tenant of ['tenant-0', 'tenant-1']) expect(most.get(tenant)).toBeLessThanOrEqual(2)
    for (const name of ['worker-1', 'worker-2']) expect(most.get(name) ?? 0).toBeLessThanOrEqual(3)
    expect(Math.max(...most.values()), 'they did run at once').toBeGreaterThan(1)
  })

  test('a key never takes more than its share while others wait: slots of killed runs come free', async () => {
    const concurrencyKey = 'tenant-killed'
    await using child = await spawnWorkerProcess()
    const doomed = await child.serve({
      databaseUrl: database.url,
      agents: [{ name: 'limited', script: 'echo' }],
      faults: [{ point: 'claimed', action: 'hold' }],
      options: { concurrencyPerKey: 1 },
    })
    const first = await say(database.db, 'a', {
      targetAgent: 'limited',
      session: { concurrencyKey },
    })
    await doomed.reached('claimed')
    const second = await say(database.db, 'b', {
      targetAgent: 'limited',
      session: { concurrencyKey },
    })
    const { agent } = scripted(() => ({ text: 'ok' }), { name: 'limited' })
    await startWorker({
      db: database.db,
      agents: [agent],
      concurrencyPerKey: 1,
      pollIntervalMs: 100,
    })
    expect((await generationRow(database.sql, second.generationId)).status).toBe('pending')
    await child.kill()
    for (const { generationId } of [first, second])
      expect(await untilSettled(database.db, generationId)).toMatchObject({ content: 'ok' })
  })
})

describe('a worker that hears no notifications', () => {
  const tool = { name: 'far', description: 'Far' }
  const turns: ScriptedTurn[] = [{ toolCalls: [{ name: 'far', args: {} }] }, { text: 'Done.' }]

  async function servesByPolling(
    db: WorkerOptions['db'],
    doorbell: 'auto' | 'poll',
  ): Promise<void> {
    const held = heldTurn()
    const script = [...turns, held.turn]
    const { agent } = scripted(script, { tools: [tool], parkAfterMs: 0 })
    const options = { db, doorbell, pollIntervalMs: 50 }
    const { events } = await startWorker({ ...options, agents: [agent] })
    await startExecutor({ ...options, tools: [{ ...tool, execute: () => 'from afar' }] })
    expect(events.of('started')).toMatchObject([{ mode: 'poll' }])
    const { generationId, sessionId } = await say(database.db, 'Far')
    expect(await untilSettled(database.db, generationId)).toMatchObject({ content: 'Done.' })
    const next = await say(database.db, 'Tell', { sessionId })
    await held.reached
    await cancel(next.generationId)
    expect(await events.untilType('cancelled')).toMatchObject({ generationId: next.generationId })
  }

  test("with doorbell 'poll': takes messages, remote results and cancels all the same", () =>
    servesByPolling(database.db, 'poll'))

  test("with 'auto' behind a pooler: finds out that nothing arrives, and polls", async () => {
    const url = await startDeafProxy(database.url)
    const client = postgres(url, { max: 5, prepare: false, onnotice: () => undefined })
    onTestFinished(() => client.end({ timeout: 5 }))
    await servesByPolling(drizzle({ client }), 'auto')
  })
})

describe('what is refused, with the cure', () => {
  const adapter = scriptedAdapter({ turns: [] })
  const base: AgentOptions = { name: 'a', instructions: 'x', adapter }
  const tool = (name: string, more = {}) => ({ name, description: name, execute: () => 1, ...more })
  const asks = [{ agent: 'b', description: 'b' }]

  test.each<[what: string, options: object, told: RegExp]>([
    ['an option misspelt', { ...base, maxStep: 3 }, /'maxStep'; did you mean 'maxSteps'/],
    ['a number out of range', { ...base, maxSteps: 0 }, /maxSteps/],
    ['no adapter', { ...base, adapter: undefined }, /adapter/],
    ['a name that is empty', { ...base, name: '' }, /name/],
    ['two tools of one name', { ...base, tools: [tool('b'), tool('b')] }, /'b'/],
    ['a tool and an agent of one name', { ...base, tools: [tool('b')], agents: asks }, /'b'/],
  ])('an agent with %s', (_what, options, told) => {
    expect(() => defineAgent(options as AgentOptions)).toThrow(told)
    expect(() => defineAgent(options as AgentOptions)).toThrow(AiDbError)
  })

  test.each<[what: string, options: object, told: RegExp]>([
    ['an option misspelt', { slot: 3 }, /'slot'; did you mean 'slots'/],
    ['no agents', { agents: [] }, /agents is empty/],
    ['an agent twice', { agents: [defineAgent(base), defineAgent(base)] }, /two agents named 'a'/],
    ['what is no agent', { agents: [{ name: 'a' }] }, /defineAgent/],
    ['no slots', { slots: 0 }, /slots/],
    ['a lease that is too short', { leaseMs: 10 }, /leaseMs/],
  ])('a worker with %s', async (_what, options, told) => {
    const given = { db: database.db, agents: [defineAgent(base)], ...options } as WorkerOptions
    await expect(createWorker(given)).rejects.toThrow(told)
    expect(await database.sql`select id from ai_db.workers`).toEqual([])
  })
})

describe('other drivers and names', () => {
  const count = { name: 'count', description: 'Counts', execute: () => ({ counted: 1 }) }
  const turns: ScriptedTurn[] = [
    { text: 'Counting.', toolCalls: [{ name: 'count', args: {} }] },
    { text: TEXT },
  ]

  test.each(['stream', 'rows'] as const)(
    'node-postgres carries a turn with tools, a cancel and a reader (%s)',
    async (way) => {
      const pool = new pg.Pool({ connectionString: database.url, max: 5 })
      onTestFinished(() => pool.end())
      const db = drizzleNodePostgres({ client: pool })
      const held = heldTurn()
      const { agent } = scripted([...turns, held.turn], { tools: [count] })
      const streamsUrl = way === 'stream' ? inject('streamsUrl') : undefined
      const { events } = await startWorker({
        db,
        agents: [agent],
        streams: { url: streamsUrl },
        pollIntervalMs: 60_000,
      })
      expect(events.of('started')).toMatchObject([{ mode: 'listen' }])
      const { generationId, sessionId } = await say(db, 'Count')
      const reader = startReader(db, generationId, { streamsUrl: streamsUrl ?? null })
      expect(await reader.ended).toMatchObject({
        status: 'completed',
        text: `Counting.\n\n${TEXT}`,
      })
      const next = await say(db, 'Again', { sessionId })
      await held.reached
      await cancelGeneration(toDatabase(db), next.generationId)
      await events.untilType('cancelled')
    },
  )

  test('a schema of another name carries a turn with a remote tool and a reader, and rings its own doorbell', async () => {
    const schema = 'other_agents'
    await migrate(database.db, { schema })
    const remote = { name: 'count', description: 'Counts' }
    const { agent } = scripted(turns, { tools: [remote], parkAfterMs: 0 })
    const common = { db: database.db, schema, pollIntervalMs: 60_000 }
    await startWorker({ ...common, agents: [agent] })
    await startExecutor({ ...common, tools: [count] })
    const { generationId } = await say(database.db, 'Count', { schema })
    const reader = startReader(database.db, generationId, { schema })
    expect(await reader.ended).toMatchObject({
      status: 'completed',
      text: `Counting.\n\n${TEXT}`,
    })
    const [row] = await database.sql`select count(*)::int as n from ai_db.generations
      where id = ${generationId}`
    expect(row!.n, 'nothing in the default schema').toBe(0)
  })
})

describe('many processes', () => {
  const MESSAGES = 200
  const SESSIONS = 50

  test('200 messages over 50 sessions, workers killed at random: each answered exactly once, in order', async () => {
    const session = (n: number) => `many-${n % SESSIONS}`
    const config = {
      databaseUrl: database.url,
      streamsUrl: inject('streamsUrl'),
      agents: [
        {
          name: 'many',
          script: 'echo' as const,
          tokensPerSecond: 50,
          options: { maxAttempts: 20 },
        },
      ],
      options: { leaseMs: 3_000, slots: 8 },
    }
    const live: WorkerProcess[] = []
    const join = async () => {
      const child = await spawnWorkerProcess()
      live.push(child)
      await child.serve(config)
    }
    onTestFinished(async () => void (await Promise.all(live.map((child) => child.kill()))))
    await Promise.all([join(), join()])
    await database.sql`
      insert into ai_db.sessions (id) select 'many-' || n from generate_series(0, ${SESSIONS - 1}) n`
    for (let n = 0; n < MESSAGES; n += 1) {
      const id = `message-${n}`
      await say(database.db, id, { id, sessionId: session(n), targetAgent: 'many' })
      if (n % 60 !== 59) continue
      const victim = live.splice(Math.floor(Math.random() * live.length), 1)[0]!
      await Promise.all([victim.kill(), join()])
    }
    const open = () =>
      database.sql`select count(*)::int as n from ai_db.generations
         where agent_name = 'many' and status in ('pending', 'generating', 'waiting')`
    await pollUntil('no generation being open', async () => (await open())[0]!.n === 0, 40_000)
    const generations = await database.sql<{ status: string; inbox: string[]; session: string }[]>`
      select status, inbox, session_id as session from ai_db.generations
       where agent_name = 'many' order by completed_at`
    expect(new Set(generations.map(({ status }) => status))).toEqual(new Set(['completed']))
    const answered = generations.flatMap(({ inbox }) => inbox)
    expect(answered).toHaveLength(MESSAGES)
    expect(new Set(answered).size, 'each once').toBe(MESSAGES)
    for (let n = 0; n < SESSIONS; n += 1) {
      const order = generations.filter((row) => row.session === session(n)).flatMap((r) => r.inbox)
      const sent = Array.from(
        { length: MESSAGES / SESSIONS },
        (_, k) => `message-${n + k * SESSIONS}`,
      )
      expect(order).toEqual(sent)
    }
    const replies = await database.sql`
      select generation_id from ai_db.messages where actor_id = 'many' and role = 'assistant'`
    expect(new Set(replies.map((row) => row.generation_id)).size).toBe(replies.length)
    expect(replies).toHaveLength(generations.length)
  }, 90_000)
})
