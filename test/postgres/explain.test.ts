/**
 * Every hot statement at a million finished rows, with what its triggers and foreign keys run: the plans
 * are those of execution (auto_explain, generic), no step reads a whole table, and the blocks touched stay
 * what they are at a thousand rows. A table of middling size is asked as well: there the planner is tempted most.
 */
import { readdirSync } from 'node:fs'
import { drizzle } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { loadGeneration } from '../../src/agent/load.js'
import { keepPartialStatement } from '../../src/claims/cancel.js'
import { releaseUnreportedCalls } from '../../src/claims/release.js'
import {
  releaseLostGenerations,
  releaseLostToolCalls,
} from '../../src/claims/release-lost-claims.js'
import {
  claimRunner,
  forgetCheckpoint,
  readCheckpoints,
  recordCheckpoints,
  releaseRunner,
  renewRunner,
} from '../../src/claims/runner-lease.js'
import { createStore, type Store } from '../../src/claims/store.js'
import {
  checkBarrier,
  checkHeld,
  checkHeldToolCalls,
  listWorkers,
  nextRunMs,
  setSleeping,
} from '../../src/claims/workers.js'
import { toDatabase, type Database } from '../../src/internal/database.js'
import { tableNames, type Statement } from '../../src/internal/statement.js'
import { cancelGeneration } from '../../src/sessions/cancel-generation.js'
import { claimToolCallsFor } from '../../src/sessions/claim-tool-calls-for.js'
import { createSession } from '../../src/sessions/create-session.js'
import { deleteSession } from '../../src/sessions/delete-session.js'
import { editMessage } from '../../src/sessions/edit-message.js'
import { listSessions } from '../../src/sessions/list-sessions.js'
import { renameSession } from '../../src/sessions/rename-session.js'
import { renewExecutor } from '../../src/sessions/renew-executor.js'
import { retryGeneration } from '../../src/sessions/retry-generation.js'
import { sendMessage } from '../../src/sessions/send-message.js'
import { settleToolCallFor } from '../../src/sessions/settle-tool-call-for.js'
import { approveToolCall, denyToolCall } from '../../src/sessions/vote-on-tool-call.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { answer, done, scenario, type Running, type Scenario } from './rows.js'

const FEW = 1_000
const SOME = 20_000
const MANY = 1_000_000
/** Tables that only grow; `workers` and `sessions` of a claim are small or reached by their key. */
const GROWING = new Set([
  'generations',
  'messages',
  'tool_calls',
  'approvals',
  'chunks',
  'checkpoints',
])

interface PlanNode {
  'Node Type': string
  'Relation Name'?: string
  'Shared Hit Blocks'?: number
  'Shared Read Blocks'?: number
  Plans?: PlanNode[]
}

interface Executed {
  'Query Text': string
  Plan: PlanNode
}

/** A connection whose every executed plan is told, nested ones too. */
interface Probe {
  db: ReturnType<typeof drizzle> & { $client: postgres.Sql }
  database: Database
  store: Store
  /** The plans of what ran inside. */
  during(work: () => Promise<unknown>): Promise<Executed[]>
}

interface World {
  database: TestDatabase
  probe: Probe
}

let few: World
let some: World
let many: World
const probes: Probe[] = []
beforeAll(async () => {
  ;[few, some, many] = await Promise.all([makeWorld(FEW), makeWorld(SOME), makeWorld(MANY)])
}, 180_000)
afterAll(async () => {
  await Promise.all(probes.map((probe) => probe.db.$client.end({ timeout: 5 })))
})

async function makeWorld(rows: number): Promise<World> {
  const database = await createTestDatabase()
  await seedFinished(database, rows)
  await seedLive(database)
  await seedBacklog(database, rows / 50)
  await database.sql`vacuum (analyze)`
  return { database, probe: await openProbe(database.url) }
}

async function openProbe(url: string): Promise<Probe> {
  const heard: Executed[] = []
  const onnotice = ({ message = '' }: postgres.Notice) => {
    const [, plan] = message.split('plan:\n')
    if (plan !== undefined) heard.push(JSON.parse(plan) as Executed)
  }
  const client = postgres(url, { max: 1, onnotice })
  for (const [name, value] of Object.entries({
    ...{ log_min_duration: 0, log_analyze: 'on', log_buffers: 'on', log_timing: 'off' },
    ...{ log_nested_statements: 'on', log_format: 'json', log_level: 'notice' },
  })) {
    await client.unsafe(`load 'auto_explain'`)
    await client.unsafe(`set auto_explain.${name} = '${value}'`)
  }
  await client`set plan_cache_mode = force_generic_plan`
  const db = drizzle({ client })
  const during = async (work: () => Promise<unknown>) => {
    heard.length = 0
    await work()
    return [...heard]
  }
  const probe = { db, database: toDatabase(db), store: createStore(db), during }
  probes.push(probe)
  return probe
}

/** Generations that ended, their calls and messages, a hundred a session; triggers do not run. */
async function seedFinished(database: TestDatabase, rows: number): Promise<void> {
  const id = (letter: string) => `'${letter}' || lpad(n::text, 8, '0')`
  const session = `'s' || n / 100`
  const series = `from generate_series(1, ${rows}) n`
  const insert = (text: string) =>
    database.sql.begin(async (sql) => {
      await sql`set local session_replication_role = replica`
      await sql`set local synchronous_commit = off`
      await sql.unsafe(text)
    })
  await insert(
    `insert into ai_db.sessions (id) select 's' || n from generate_series(0, ${rows / 100}) n`,
  )
  await Promise.all([
    insert(`
      insert into ai_db.generations (id, session_id, agent_name, status, attempt, worker_id, inbox, completed_at)
      select ${id('g')}, ${session}, 'assistant', 'completed', 1, 'w' || n % 10, jsonb_build_array(${id('m')}), now()
      ${series}`),
    insert(`
      insert into ai_db.tool_calls (id, generation_id, session_id, step, index, provider_call_id, name, args,
        status, attempt, worker_id, completed_at)
      select ${id('c')}, ${id('g')}, ${session}, 0, 0, 'c', 'lookup', '{}', 'completed', 1, 'w' || n % 10, now()
      ${series}`),
    insert(`
      insert into ai_db.approvals (tool_call_id, session_id, action, actor_id, args_hash)
      select ${id('c')}, ${session}, 'approved', 'ann', 'h' from generate_series(1, ${rows}, 10) n`),
    insert(`
      insert into ai_db.messages (id, session_id, role, actor_id, target_agent, content, parts, processed,
        processed_by, generation_id)
      select ${id('m')}, ${session}, case n % 2 when 0 then 'user' else 'assistant' end,
        case n % 2 when 0 then 'user' else 'assistant' end, case n % 2 when 0 then 'assistant' else 'user' end,
        'hello', case n % 2 when 1 then '[]'::jsonb end, true,
        case n % 2 when 0 then ${id('g')} end, case n % 2 when 1 then ${id('g')} end
      ${series}`),
    insert(`
      insert into ai_db.checkpoints (runner_id, source, cursor, attempt)
      select ${id('r')}, case n % 2 when 0 then '' else 'stream' end, n, 1 ${series}`),
    // What failed keeps its text.
    insert(`
      insert into ai_db.chunks (generation_id, session_id, index, attempt, step, type, content)
      select ${id('g')}, ${session}, 0, 1, 0, 'text', 'hello' from generate_series(1, ${rows}, 10) n`),
  ])
}

/** What is under way beside the measured row: queued, generating, waiting. */
async function seedLive(database: TestDatabase): Promise<void> {
  const here = scenario(database)
  const workerId = await here.worker()
  for (let nth = 0; nth < 40; nth += 1) {
    await here.say(await here.session({ concurrencyKey: `key-${nth % 4}` }))
  }
  for (const [nth, run] of (await here.claim(workerId, { limit: 20 })).entries()) {
    await here.calls({ ...run, workerId, messageId: '' }, 2, nth % 2 ? 'pending' : 'executing')
    if (nth % 4 === 1) await here.store.putDownGeneration(run.id, run.attempt, 'tools')
  }
}

/** Work of one busy agent that waits behind everything else, a session each. */
async function seedBacklog(database: TestDatabase, rows: number): Promise<void> {
  await database.sql`
    insert into ai_db.sessions (id, priority) select 'busy-' || n, -1 from generate_series(1, ${rows}::int) n`
  await database.sql`
    insert into ai_db.messages (session_id, role, actor_id, target_agent, content)
    select 'busy-' || n, 'user', 'ann', 'busy', 'hi' from generate_series(1, ${rows}::int) n`
}

/** A run in a session with a long history. */
async function runIn(here: Scenario, sessionId: string): Promise<Running> {
  const workerId = await here.worker()
  const messageId = await here.say(sessionId)
  const { id, attempt } = await here.claimOne(workerId)
  return { workerId, sessionId, messageId, id, attempt }
}

type Case = (here: Scenario, probe: Probe, world: World) => Promise<() => Promise<unknown>>

const oldSession = 's5'

/** Each prepares its rows, and returns what is measured. */
const cases: Readonly<Record<string, Case>> = {
  'create session': (_here, { db }) => Promise.resolve(() => createSession(db)),
  'send message': (here, { db }) =>
    Promise.resolve(async () => {
      const message = { sessionId: oldSession, content: 'hi', targetAgent: here.agent }
      await sendMessage(db, { ...message, queueForUnknownAgent: true })
      await sendMessage(db, { ...message, queueForUnknownAgent: true })
    }),
  'claim generations': async (here, { store }) => {
    await here.say(oldSession)
    return () => here.claimOne('w', { store, limit: 1 })
  },
  'claim from a backlog': (_here, { store }) =>
    Promise.resolve(() =>
      store.claimGenerations({ workerId: 'w', agents: new Map([['busy', 5]]), limit: 1 }),
    ),
  'claim from a backlog by key': (_here, { store }) =>
    Promise.resolve(() =>
      store.claimGenerations({
        ...{ workerId: 'w', agents: new Map([['busy', 5]]), limit: 1 },
        concurrencyPerKey: 2,
      }),
    ),
  'claim generations by key': async (here, { store }) => {
    await here.say(await here.session({ concurrencyKey: here.agent }))
    return () => here.claimOne('w', { store, limit: 1, concurrencyPerKey: 2 })
  },
  'claim tool calls': async (here, { store }) => {
    await here.calls(await runIn(here, oldSession), 2, 'pending')
    return () => store.claimToolCalls({ workerId: 'w', tools: ['lookup'], limit: 1 })
  },
  'claim own tool calls': async (here, { store }) => {
    const ids = await here.calls(await runIn(here, oldSession), 2, 'pending')
    return () => store.claimOwnToolCalls(ids, 'w')
  },
  load: async (here, { database }) => {
    const run = await runIn(here, oldSession)
    return () => loadGeneration(database, run.id, 40)
  },
  'load together': (_here, { database }) =>
    // Two of the old session's finished ones: a load asks for no status.
    Promise.resolve(() =>
      Promise.all(['g00000501', 'g00000502'].map((id) => loadGeneration(database, id, 40))),
    ),
  'insert chunks': async (here, { store }) => {
    const run = await runIn(here, oldSession)
    const chunk = { index: 0, attempt: 1, step: 0, type: 'text', content: 'hi' }
    return () => store.insertChunks(run.id, run.attempt, [chunk])
  },
  'record step': async (here, { store }) => {
    const run = await runIn(here, oldSession)
    return () =>
      store.recordStep({
        ...{ generationId: run.id, attempt: run.attempt, workerId: run.workerId, step: 0 },
        ...{ text: 'hm', chunkIndex: 0, inputTokens: 1, outputTokens: 1, model: 'm' },
        providerResponseId: 'r',
        toolCalls: [
          { providerCallId: run.id, name: 'lookup', args: {}, status: 'executing' },
          {
            providerCallId: `${run.id}-ask`,
            name: 'ask',
            args: {},
            status: 'pending',
            ask: { agent: 'other', content: 'how many?' },
          },
        ],
      })
  },
  'settle generation': async (here, { store }) => {
    const run = await runIn(here, oldSession)
    await here.say(oldSession)
    return () => store.settleGeneration(answer(run))
  },
  'settle generation as failed': async (here, { store }) => {
    const run = await runIn(here, oldSession)
    await here.calls(run, 2)
    return () => store.settleGeneration({ ...answer(run), status: 'failed', error: 'broken' })
  },
  'settle generation that answers an agent': async (here, { store }, { database }) => {
    const asker = await runIn(here, await here.session())
    const [call] = await here.calls(asker, 1, 'pending')
    await here.store.putDownGeneration(asker.id, asker.attempt, 'tools')
    const run = await runIn(here, oldSession)
    await database.sql`update ai_db.messages set request_id = ${call!} where id = ${run.messageId}`
    return () => store.settleGeneration(answer(run))
  },
  'settle tool calls, resuming': async (here, { store }) => {
    const run = await runIn(here, oldSession)
    const calls = await here.calls(run, 2)
    await here.store.putDownGeneration(run.id, run.attempt, 'tools')
    return () => store.settleToolCalls(calls.map((id) => done(id)))
  },
  'settle tool call': async (here, { store }) => {
    const [call] = await here.calls(await runIn(here, oldSession), 2)
    return () => store.settleToolCall(done(call!))
  },
  'put down': async (here, { store }) => {
    const run = await runIn(here, oldSession)
    await here.calls(run, 1, 'pending')
    return () => store.putDownGeneration(run.id, run.attempt, 'tools')
  },
  'release generation': async (here, { store }) => {
    const run = await runIn(here, oldSession)
    await here.calls(run, 2)
    return () => store.releaseGeneration({ generationId: run.id, attempt: 1, error: 'busy' })
  },
  'release tool calls': async (here, { store }) => {
    const run = await runIn(here, oldSession)
    const calls = await here.calls(run, 2)
    return () => store.releaseToolCalls(calls, run.workerId)
  },
  'give back what a lost answer left': async (here, { database }) => {
    const run = await runIn(here, oldSession)
    await here.calls(run, 2)
    return async () => {
      await releaseUnreportedCalls(database, run.id, run.attempt, run.workerId)
      await releaseLostToolCalls(database, run.workerId, [])
      await releaseLostGenerations(database, run.workerId, [])
    }
  },
  'cancel a running generation': async (here, { store }) => {
    const run = await runIn(here, oldSession)
    await here.calls(run, 2)
    await here.say(oldSession)
    return () => store.cancelGeneration(run.id)
  },
  'cancel a queued generation': async (here, { store }) => {
    await runIn(here, oldSession)
    const queued = await here.store.generationForMessage(await here.say(oldSession))
    return () => store.cancelGeneration(queued!)
  },
  'keep partial text': async (here, { database }) => {
    const run = await runIn(here, oldSession)
    await here.store.cancelGeneration(run.id)
    return () => database.query(keepPartialStatement, [run.id, run.attempt, 'so far', '[]'])
  },
  recover: async (here, { store }) => {
    const run = await runIn(here, oldSession)
    await here.calls(run, 2)
    return () => store.recoverWorkers([run.workerId])
  },
  expire: async (here, { store }, { database }) => {
    const run = await runIn(here, oldSession)
    const [call] = await here.calls(run, 1, 'pending')
    await here.store.putDownGeneration(run.id, run.attempt, 'tools')
    await database.sql`update ai_db.tool_calls set expires_at = 'epoch' where id = ${call!}`
    return () => store.expireWaits()
  },
  reads: async (here, { store, database }) => {
    const run = await runIn(here, oldSession)
    const calls = await here.calls(run, 2)
    return async () => {
      await store.readGeneration(run.id)
      await store.generationForMessage(run.messageId)
      await store.readToolCalls(run.id, 0)
      await checkHeld(database, [run.id])
      await checkHeldToolCalls(database, calls)
    }
  },
  'runner lease and checkpoints': (here, { database }) =>
    Promise.resolve(async () => {
      const [runner, source] = [here.agent, 'stream']
      const attempt = (await claimRunner(database, runner, 'wake', 1e6))!
      await renewRunner(database, runner, attempt, 1e6)
      await recordCheckpoints(database, runner, attempt, [{ source, cursor: '1' }])
      await readCheckpoints(database, runner)
      await forgetCheckpoint(database, runner, source)
      await releaseRunner(database, runner, attempt, true)
    }),
  'people’s sessions': async (here, { db }) => {
    const { id } = await createSession(db, { ownerId: here.agent })
    return async () => {
      await listSessions(db, { ownerId: here.agent })
      await renameSession(db, { sessionId: id, title: 'Rome' })
      await createSession(db, { id, ownerId: here.agent, onDuplicate: 'touch' })
    }
  },
  'delete a session': async (here, { db }) => {
    const run = await here.running()
    await here.calls(run, 1)
    return () => deleteSession(db, { sessionId: run.sessionId })
  },
  'cancel, as a person': async (here, { db }) => {
    const run = await runIn(here, oldSession)
    return () => cancelGeneration(db, { sessionId: oldSession, generationId: run.id })
  },
  'edit a message': async (here, { db }) => {
    const run = await runIn(here, oldSession)
    await here.calls(run, 2)
    const message = { sessionId: oldSession, messageId: run.messageId, content: 'better' }
    return () => editMessage(db, message)
  },
  'retry a generation': async (here, { db }) => {
    const run = await runIn(here, oldSession)
    await here.calls(run, 2)
    await here.store.settleGeneration({ ...answer(run), status: 'failed', error: 'broken' })
    const retry = { sessionId: oldSession, generationId: run.id, id: `${run.id}-again` }
    return async () => {
      await retryGeneration(db, retry)
      await retryGeneration(db, retry)
    }
  },
  'vote on tool calls': async (here, { db, store }, { database }) => {
    const run = await runIn(here, oldSession)
    const call = { name: 'lookup', args: {}, status: 'pending' as const, approvalsRequired: 1 }
    const calls = await here.store.recordStep({
      ...{ generationId: run.id, attempt: run.attempt, workerId: run.workerId, step: 0, text: '' },
      ...{ chunkIndex: 0, inputTokens: 0, outputTokens: 0, model: null, providerResponseId: null },
      toolCalls: [1, 2].map((n) => ({ ...call, providerCallId: `${run.id}-${n}` })),
    })
    await here.store.putDownGeneration(run.id, run.attempt, 'tools')
    const [row] = await database.sql<{ hash: string }[]>`
      select args_hash as hash from ai_db.tool_calls where id = ${calls[0]!.id}`
    const vote = { sessionId: oldSession, actorId: 'ann', argsHash: row!.hash }
    return async () => {
      await approveToolCall(db, { ...vote, toolCallId: calls[0]!.id })
      await approveToolCall(db, { ...vote, toolCallId: calls[0]!.id })
      await store.claimOwnToolCalls([calls[0]!.id], 'w')
      await denyToolCall(db, { ...vote, toolCallId: calls[1]!.id })
    }
  },
  'executors in browsers': async (here, { db }) => {
    // The old session has more pending calls by now than one claim takes.
    const run = await runIn(here, await here.session())
    const [call] = await here.calls(run, 2, 'pending')
    await here.store.putDownGeneration(run.id, run.attempt, 'tools')
    const executorId = here.agent
    return async () => {
      const claim = { sessionId: run.sessionId, executorId, tools: ['lookup'], limit: 20 }
      await claimToolCallsFor(db, claim)
      await renewExecutor(db, { executorId })
      await settleToolCallFor(db, {
        ...{ sessionId: run.sessionId, toolCallId: call!, executorId, attempt: 1 },
        outcome: { status: 'completed', result: 42 },
      })
    }
  },
  'worker lease and sleep': (here, { store, database }) =>
    Promise.resolve(async () => {
      const worker = { id: here.agent, name: 'test', agents: [here.agent], tools: ['lookup'] }
      await store.registerWorker({ ...worker, slots: 1, locked: false, leaseMs: 1e6, version: '0' })
      await setSleeping(database, here.agent, true)
      await nextRunMs(database, here.agent)
      await store.renewLease(here.agent, 1e6, false)
      await listWorkers(database)
      await checkBarrier(database, null)
      await store.deregisterWorker(here.agent)
    }),
  'settle generations together': async (here, { store }) => {
    const runs = [await here.running(), await here.running()]
    return () => Promise.all(runs.map((run) => store.settleGeneration(answer(run))))
  },
}

function* nodesOf(node: PlanNode): Generator<PlanNode> {
  yield node
  for (const child of node.Plans ?? []) yield* nodesOf(child)
}

const wholeTableReads = (executed: readonly Executed[]) =>
  executed.flatMap(({ Plan, 'Query Text': text }) =>
    [...nodesOf(Plan)]
      .filter((node) => node['Node Type'] === 'Seq Scan' && GROWING.has(node['Relation Name']!))
      .map((node) => `${node['Relation Name']}: ${text}`),
  )

const blocksOf = (executed: readonly Executed[]) =>
  executed.reduce(
    (sum, { Plan }) => sum + (Plan['Shared Hit Blocks'] ?? 0) + (Plan['Shared Read Blocks'] ?? 0),
    0,
  )

/** The case as it runs warm: the first round fills the caches of the connection. */
async function measure(name: string, world: World): Promise<Executed[]> {
  let executed: Executed[] = []
  for (let round = 0; round < 3; round += 1) {
    const work = await cases[name]!(scenario(world.database), world.probe, world)
    executed = await world.probe.during(work)
  }
  return executed
}

const filesOf = (folder: string) => readdirSync(folder).map((file) => file.replace('.ts', ''))

const seen = new Set<string>()

describe('at a million finished rows', () => {
  it.each(Object.keys(cases))(
    '%s reads no whole table, and as few blocks as at a thousand',
    async (name) => {
      const executed = await measure(name, many)
      for (const { 'Query Text': text } of executed) seen.add(text)
      expect(wholeTableReads(executed)).toEqual([])
      expect(wholeTableReads(await measure(name, some))).toEqual([])
      const [atFew, atMany] = [blocksOf(await measure(name, few)), blocksOf(executed)]
      expect(atMany).toBeLessThan(3 * Math.max(atFew, 8))
    },
  )

  it('no statement of the store, nor of what people do, was left out', async () => {
    const missing: string[] = []
    const modules = await Promise.all([
      ...filesOf('src/claims').map((name) => import(`../../src/claims/${name}.ts`)),
      ...filesOf('src/sessions').map((name) => import(`../../src/sessions/${name}.ts`)),
    ])
    for (const module of modules as object[]) {
      for (const one of Object.values(module) as Partial<Statement<[], unknown>>[]) {
        if (typeof one !== 'object' || typeof one.text !== 'function') continue
        if (!seen.has(one.text(tableNames('ai_db')))) missing.push(one.name!)
      }
    }
    expect(missing).toEqual([])
  })

  it('the probe sees what triggers and foreign keys run, and would see a whole table read', async () => {
    const nested = await measure('settle generation', many)
    expect(nested.length).toBeGreaterThan(4)
    const [all] = await many.probe.during(() =>
      many.probe.db.$client.unsafe(`select count(*) from ai_db.chunks where content = 'x'`),
    )
    expect([...nodesOf(all!.Plan)].map((node) => node['Node Type'])).toContain('Seq Scan')
  })
})
