/**
 * kill -9 of a worker at each named moment of a turn. Another process goes on: the same message as an unbroken
 * run's, every call settled once, nothing executed twice that had reported, and one coherent text for a reader
 * who was there all along.
 */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { FaultPoint } from '../../src/runner/agent-run.js'
import type { Fault } from '../support/child-worker.js'
import { EFFECTS_TABLE } from '../support/child-worker-agents.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { spawnWorkerProcess, type WorkerProcess } from '../support/worker-process.js'
import {
  generationRow,
  messageRows,
  say,
  startReader,
  toolCallRows,
  untilSettled,
} from '../worker/turn-world.js'

type Policy = 'continue' | 'restart'

/** Where in the turn of two lookups and an answer each point is armed. */
const POINTS: Record<FaultPoint, number> = {
  claimed: 1,
  'before-provider-call': 2,
  'mid-text': 35,
  'mid-tool-arguments': 2,
  'before-step': 2,
  'step-recorded': 1,
  'after-side-effect': 1,
  'tool-settled': 2,
  'before-cutover': 1,
  'after-cutover': 1,
}
const WITHOUT_STREAMS: FaultPoint[] = ['mid-text', 'tool-settled', 'before-cutover']

interface Outcome {
  content: unknown
  parts: unknown
  results: unknown
}

let database: TestDatabase
let survivor: WorkerProcess
let nextVictim: Promise<WorkerProcess>
let unbroken: Outcome
let scenario = 0
const toNextToken: { what: string; ms: number }[] = []

beforeAll(async () => {
  database = await createTestDatabase()
  await database.sql.unsafe(EFFECTS_TABLE)
  nextVictim = spawnWorkerProcess()
  survivor = await spawnWorkerProcess()
  const agentName = 'unbroken'
  const serving = await survivor.serve(config(agentName, 'restart', inject('streamsUrl')))
  const { generationId, sessionId } = await say(database.db, 'Look both up', {
    targetAgent: agentName,
  })
  await untilSettled(database.db, generationId)
  unbroken = await outcome(generationId, sessionId)
  await serving.stop()
})

afterAll(async () => {
  await survivor.kill()
  await (await nextVictim).kill()
  const sorted = toNextToken.map(({ ms }) => ms).sort((a, b) => a - b)
  const line = toNextToken.map(({ what, ms }) => `${what} ${ms.toFixed(0)}`).join(', ')
  console.log(
    `kill -9 to the next token a reader sees, ms: p50 ${sorted[sorted.length >> 1]?.toFixed(0)}, ` +
      `max ${sorted.at(-1)?.toFixed(0)} (${line})`,
  )
})

function config(
  name: string,
  onInterrupted: Policy,
  streamsUrl: string | undefined,
  faults: Fault[] = [],
) {
  const agents = [{ name, script: 'two-lookups' as const, options: { onInterrupted } }]
  return { databaseUrl: database.url, streamsUrl, agents, faults, options: { shutdownGraceMs: 0 } }
}

/** What must be the same whether or not a worker was killed. Ids of calls are the provider's whim. */
async function outcome(generationId: string, sessionId: string): Promise<Outcome> {
  const calls = await toolCallRows(database.sql, generationId)
  const said = (await messageRows(database.sql, sessionId)).filter((m) => m.role === 'assistant')
  expect(said, 'one message of the assistant').toHaveLength(1)
  const place = (id: unknown) => calls.findIndex((call) => call.id === id)
  const parts = (said[0]!.parts as { type: string; id?: string }[]).map((part) =>
    part.type === 'tool-call' ? { ...part, id: place(part.id) } : part,
  )
  const results = calls.map(({ step, index, name, args, status, result, error }) => ({
    ...{ step, index, name, args, status, result, error },
  }))
  return { content: said[0]!.content, parts, results }
}

/** One turn whose worker is killed at `point`; a second worker stands by. */
async function killedAt(point: FaultPoint, onInterrupted: Policy, streamsUrl: string | undefined) {
  const { db, sql } = database
  const agentName = `killed-${++scenario}`
  await using victim = await nextVictim
  nextVictim = spawnWorkerProcess()
  const held: Fault = { point: 'claimed', action: 'hold' }
  const deadly: Fault = { point, nth: POINTS[point], action: 'kill' }
  // Both of them at 'claimed': held first, then killed.
  const doomed = await victim.serve(config(agentName, onInterrupted, streamsUrl, [held, deadly]))
  const { generationId, sessionId } = await say(db, 'Look both up', { targetAgent: agentName })
  await doomed.reached('claimed')
  const reader = startReader(db, generationId, { streamsUrl: streamsUrl ?? null })
  const other = await survivor.serve(config(agentName, onInterrupted, streamsUrl))
  try {
    doomed.release()
    const { signal, at: killedAtMs } = await victim.exited
    expect(signal, 'killed at the point, and not ended before').toBe('SIGKILL')
    const last = await reader.ended
    const next = reader.updates.find(({ at, update }) => at > killedAtMs && update.appended !== '')
    if (next && point !== 'after-cutover') {
      const where = `${point}/${onInterrupted}${streamsUrl ? '' : '/rows'}`
      toNextToken.push({ what: where, ms: next.at - killedAtMs })
    }
    const effects = await sql<{ id: string; attempt: number; pid: number }[]>`
      select e.tool_call_id as id, e.attempt, e.pid from effects e
      join ai_db.tool_calls c on c.id = e.tool_call_id and c.generation_id = ${generationId}
      order by e.at`
    const strangers = await sql`
      select * from effects e where not exists
        (select 1 from ai_db.tool_calls c where c.id = e.tool_call_id)`
    expect(strangers, 'side effects of calls that are no rows').toEqual([])
    return {
      last,
      reader,
      effects,
      victimPid: victim.pid,
      generation: await generationRow(sql, generationId),
      outcome: await outcome(generationId, sessionId),
      messages: await messageRows(sql, sessionId),
    }
  } finally {
    await other.stop()
  }
}

/**
 * The executions of the first call. Killed with its side effect done, it runs again: at least once. Killed when
 * the call was its row but not begun, it runs once, as the second attempt: nobody can prove it had not begun.
 */
function attemptsAtFirst(point: FaultPoint): number[] {
  if (point === 'after-side-effect') return [1, 2]
  return point === 'step-recorded' ? [2] : [1]
}

async function goesOnAsIfUnbroken(
  point: FaultPoint,
  policy: Policy,
  streamsUrl: string | undefined,
) {
  const run = await killedAt(point, policy, streamsUrl)
  expect(run.outcome).toEqual(unbroken)
  expect(run.messages).toHaveLength(2)
  expect(run.messages.every((message) => message.processed)).toBe(true)
  expect(run.generation.status).toBe('completed')
  expect(run.generation.attempt).toBe(point === 'after-cutover' ? 1 : 2)
  expect(run.last.status).toBe('completed')
  expect(run.last.text).toBe(unbroken.content)
  expect(run.reader.text).toBe(unbroken.content)
  const [first, second] = [...new Set(run.effects.map(({ id }) => id))]
  const executions = run.effects.map(({ id, attempt }) => [id, attempt])
  expect(executions).toEqual([...attemptsAtFirst(point).map((n) => [first, n]), [second, 1]])
  if (point === 'after-side-effect') {
    expect(run.effects[0]!.pid).toBe(run.victimPid)
    expect(run.effects[1]!.pid).toBe(survivor.pid)
  }
}

for (const policy of ['restart', 'continue'] as const) {
  describe(`a worker killed, text that was cut is treated by '${policy}'`, () => {
    test.each(Object.keys(POINTS) as FaultPoint[])(
      'at %s: another process goes on, and the transcript is an unbroken run’s',
      (point) => goesOnAsIfUnbroken(point, policy, inject('streamsUrl')),
    )
    test.each(WITHOUT_STREAMS)('at %s, without a stream server: the same, by chunk rows', (point) =>
      goesOnAsIfUnbroken(point, policy, undefined),
    )
  })
}
