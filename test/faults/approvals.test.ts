/**
 * kill -9 around an approval: while its generation waits for people in its slot, right after the vote, and with
 * everybody dead while people vote. What was approved runs, once for each execution that reported; nothing else does.
 */
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { approveToolCall } from '../../src/sessions/vote-on-tool-call.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { EFFECTS_TABLE } from '../support/child-worker-agents.js'
import type { Fault } from '../support/child-worker.js'
import { pollUntil } from '../support/poll-until.js'
import { spawnWorkerProcess } from '../support/worker-process.js'
import { generationRow, say, toolCallRows, untilSettled, type Sent } from '../worker/turn-world.js'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
  await database.sql.unsafe(EFFECTS_TABLE)
})

let nth = 0
const nextAgent = () => `gated-${(nth += 1)}`

const config = (name: string, parkAfterMs: number, faults: Fault[] = []) => ({
  databaseUrl: database.url,
  streamsUrl: inject('streamsUrl'),
  agents: [{ name, script: 'gated-lookup' as const, options: { parkAfterMs } }],
  faults,
  options: { shutdownGraceMs: 0 },
})

/** Approves the call the generation waits for. */
async function approve(sent: Sent, step: number): Promise<void> {
  const call = await pollUntil(`the question of step ${step}`, async () =>
    (await toolCallRows(database.sql, sent.generationId)).find(
      (row) => row.step === step && row.status === 'pending' && row.approved_at === null,
    ),
  )
  await approveToolCall(database.db, {
    ...{ sessionId: sent.sessionId, toolCallId: call.id as string, actorId: 'ann' },
    argsHash: call.args_hash as string,
  })
}

const executions = async (sent: Sent) => {
  const rows = await database.sql<{ attempt: number }[]>`
    select e.attempt from effects e join ai_db.tool_calls c on c.id = e.tool_call_id
    where c.generation_id = ${sent.generationId} order by c.step, e.at`
  return rows.map(({ attempt }) => attempt)
}

async function endsWell(sent: Sent, attempts: number[]): Promise<void> {
  const end = await untilSettled(database.db, sent.generationId)
  expect(end.status).toBe('completed')
  expect(end.content).toContain(
    'Both are in: {"key":"alpha","value":35} and {"key":"beta","value":28}',
  )
  expect(await executions(sent)).toEqual(attempts)
  const calls = await toolCallRows(database.sql, sent.generationId)
  expect(calls.map(({ status }) => status)).toEqual(['completed', 'completed'])
}

describe('kill -9', () => {
  test('of the worker that waits for people in its slot: another asks no second time, and runs what is approved', async () => {
    const name = nextAgent()
    await using victim = await spawnWorkerProcess()
    await victim.serve(config(name, 60_000))
    const sent = await say(database.db, 'Look both up', { targetAgent: name })
    await pollUntil('a call that waits for people', async () => {
      const [call] = await toolCallRows(database.sql, sent.generationId)
      return call?.status === 'pending'
    })
    await using survivor = await spawnWorkerProcess()
    await survivor.serve(config(name, 60_000))
    await victim.kill()
    await pollUntil('the other has it', async () => {
      const { attempt, status } = await generationRow(database.sql, sent.generationId)
      return status === 'generating' && attempt === 2
    })
    expect(await executions(sent)).toEqual([])
    await approve(sent, 0)
    await approve(sent, 1)
    await endsWell(sent, [1, 1])
    const asked = await database.sql`
      select 1 from ai_db.approvals a join ai_db.tool_calls c on c.id = a.tool_call_id
      where c.generation_id = ${sent.generationId} and a.action = 'requested'`
    expect(asked).toHaveLength(2)
  })

  test('of the worker that the approval woke, with the side effect done: another runs the call again, as attempt 2', async () => {
    const name = nextAgent()
    await using victim = await spawnWorkerProcess()
    await victim.serve(config(name, 0, [{ point: 'after-side-effect', action: 'kill' }]))
    const sent = await say(database.db, 'Look both up', { targetAgent: name })
    await pollUntil('waiting for people', async () => {
      const row = await generationRow(database.sql, sent.generationId)
      return row.wait_reason === 'approval'
    })
    await using survivor = await spawnWorkerProcess()
    await approve(sent, 0)
    expect((await victim.exited).signal).toBe('SIGKILL')
    await survivor.serve(config(name, 0))
    await approve(sent, 1)
    // The approval is the call's, not the dead worker's: nobody is asked again.
    await endsWell(sent, [1, 2, 1])
  })

  test('of everybody before the vote: it is a row, and whoever comes later goes on from it', async () => {
    const name = nextAgent()
    await using victim = await spawnWorkerProcess()
    await victim.serve(config(name, 0))
    const sent = await say(database.db, 'Look both up', { targetAgent: name })
    await pollUntil('waiting for people', async () => {
      const row = await generationRow(database.sql, sent.generationId)
      return row.wait_reason === 'approval'
    })
    await victim.kill()
    await approve(sent, 0)
    expect(await generationRow(database.sql, sent.generationId)).toMatchObject({
      status: 'pending',
    })
    await using survivor = await spawnWorkerProcess()
    await survivor.serve(config(name, 0))
    await approve(sent, 1)
    await endsWell(sent, [1, 1])
  })
})
