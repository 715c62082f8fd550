/** Agents whose tools ask people first: nothing runs unasked, siblings do not wait, and no slot is held meanwhile. */
import { beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { AgentOptions } from '../../src/agent/agent-options.js'
import type { RunnableTool } from '../../src/tools/run-tool.js'
import { claimToolCallsFor } from '../../src/sessions/claim-tool-calls-for.js'
import { settleToolCallFor } from '../../src/sessions/settle-tool-call-for.js'
import { approveToolCall, denyToolCall } from '../../src/sessions/vote-on-tool-call.js'
import type { ScriptedTurn } from '../../src/testing.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { pollUntil } from '../support/poll-until.js'
import {
  generationRow,
  say,
  scripted,
  startExecutor,
  startWorker,
  toolCallRows,
  untilSettled,
  type Row,
  type Sent,
} from './turn-world.js'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})

/** A tool that deletes, and says what it deleted. */
function deleter(deeds: string[], more: Partial<RunnableTool> = {}): RunnableTool {
  return {
    name: 'delete_file',
    description: 'Deletes a file',
    inputSchema: z.object({ file: z.string() }),
    needsApproval: true,
    execute: ({ file }: { file: string }) => {
      deeds.push(file)
      return { deleted: file }
    },
    ...more,
  }
}

const wish = { name: 'delete_file', args: { file: 'notes.txt' } }

async function ask(
  tools: readonly RunnableTool[],
  calls: NonNullable<ScriptedTurn['toolCalls']> = [wish],
  options: Partial<AgentOptions> = {},
) {
  const { adapter, agent } = scripted([{ toolCalls: calls }, { text: 'So be it.' }], {
    parkAfterMs: 0,
    tools,
    ...options,
  })
  const worker = await startWorker({ db: database.db, agents: [agent], slots: 1 })
  const sent = await say(database.db, 'Delete notes.txt')
  return { ...sent, ...worker, adapter, agent }
}

const untilWaiting = (generationId: string, reason: string) =>
  pollUntil(`generation ${generationId} waits for ${reason}`, async () => {
    const row = await generationRow(database.sql, generationId)
    return row.status === 'waiting' && row.wait_reason === reason
  })

const untilAsked = (sent: Sent): Promise<Row> =>
  pollUntil('a call that waits for people', async () => {
    const rows = await toolCallRows(database.sql, sent.generationId)
    return rows.find((row) => row.status === 'pending' && row.approvals_required === 1)
  })

const vote = (sent: Sent, call: Row, actorId = 'ann') => ({
  sessionId: sent.sessionId,
  toolCallId: call.id as string,
  actorId,
  argsHash: call.args_hash as string,
})

function toldOf({ adapter }: { adapter: ReturnType<typeof scripted>['adapter'] }) {
  const told = adapter.calls[1]!.messages.filter((message) => message.role === 'tool')
  return told.map(({ content }) => JSON.parse(String(content)) as unknown)
}

describe('a tool that needs approval', () => {
  test('runs when somebody has approved it, and not before; the slot is free meanwhile', async () => {
    const deeds: string[] = []
    const sent = await ask([deleter(deeds)])
    await untilWaiting(sent.generationId, 'approval')
    expect(sent.worker.running).toBe(0)
    expect(deeds).toEqual([])
    await approveToolCall(database.db, vote(sent, await untilAsked(sent)))
    expect(await untilSettled(database.db, sent.generationId)).toMatchObject({
      status: 'completed',
      content: 'So be it.',
    })
    expect(deeds).toEqual(['notes.txt'])
    expect(toldOf(sent)).toEqual([{ deleted: 'notes.txt' }])
  })

  test('approved while its generation still holds its slot runs at once, in the same attempt', async () => {
    const deeds: string[] = []
    const sent = await ask([deleter(deeds)], [wish], { parkAfterMs: 60_000 })
    await approveToolCall(database.db, vote(sent, await untilAsked(sent)))
    await untilSettled(database.db, sent.generationId)
    expect(deeds).toEqual(['notes.txt'])
    expect(await generationRow(database.sql, sent.generationId)).toMatchObject({ attempt: 1 })
  })

  test('denied never runs; the model is told by whom and why, and answers', async () => {
    const deeds: string[] = []
    const sent = await ask([deleter(deeds)])
    await untilWaiting(sent.generationId, 'approval')
    const call = await untilAsked(sent)
    await denyToolCall(database.db, { ...vote(sent, call), reason: 'I need it' })
    expect(await untilSettled(database.db, sent.generationId)).toMatchObject({
      status: 'completed',
    })
    expect(deeds).toEqual([])
    expect(toldOf(sent)).toEqual([{ error: 'denied by ann: I need it' }])
  })

  test('with arguments that do not fit fails at once, without asking anybody', async () => {
    const deeds: string[] = []
    const sent = await ask([deleter(deeds)], [{ name: 'delete_file', args: { path: 1 } }])
    expect(await untilSettled(database.db, sent.generationId)).toMatchObject({
      status: 'completed',
    })
    const [call] = await toolCallRows(database.sql, sent.generationId)
    expect(call).toMatchObject({ status: 'failed' })
    const asked = await database.sql`
      select 1 from ai_db.approvals where tool_call_id = ${call!.id as string}`
    expect(asked).toEqual([])
  })

  test('lets its siblings run: they do not wait for people', async () => {
    const deeds: string[] = []
    const lookup = { name: 'lookup', description: 'l', execute: () => 'found' }
    const sent = await ask([deleter(deeds), lookup], [wish, { name: 'lookup', args: {} }])
    await untilWaiting(sent.generationId, 'approval')
    const rows = await toolCallRows(database.sql, sent.generationId)
    expect(rows.map(({ name, status }) => [name, status])).toEqual([
      ['delete_file', 'pending'],
      ['lookup', 'completed'],
    ])
    await approveToolCall(database.db, vote(sent, rows[0]!))
    await untilSettled(database.db, sent.generationId)
    expect(toldOf(sent)).toEqual([{ deleted: 'notes.txt' }, 'found'])
  })

  test('approved while a sibling runs runs beside it', async () => {
    const deeds: string[] = []
    let finish!: () => void
    const slow = new Promise<string>((resolve) => (finish = () => resolve('slow')))
    const lookup = { name: 'lookup', description: 'l', execute: () => slow }
    const sent = await ask([deleter(deeds), lookup], [wish, { name: 'lookup', args: {} }])
    await approveToolCall(database.db, vote(sent, await untilAsked(sent)))
    await pollUntil('the approved call has run', () => deeds.length === 1)
    finish()
    await untilSettled(database.db, sent.generationId)
    expect(toldOf(sent)).toEqual([{ deleted: 'notes.txt' }, 'slow'])
  })

  test('is settled one by one when people answer one by one', async () => {
    const deeds: string[] = []
    const other = { name: 'delete_file', args: { file: 'b.txt' } }
    const sent = await ask([deleter(deeds)], [wish, other])
    await untilWaiting(sent.generationId, 'approval')
    const [first, second] = await toolCallRows(database.sql, sent.generationId)
    await approveToolCall(database.db, vote(sent, second!))
    await pollUntil('the approved one has run', () => deeds.length === 1)
    await untilWaiting(sent.generationId, 'approval')
    await denyToolCall(database.db, vote(sent, first!))
    await untilSettled(database.db, sent.generationId)
    expect(deeds).toEqual(['b.txt'])
    expect(toldOf(sent)).toEqual([{ error: 'denied by ann' }, { deleted: 'b.txt' }])
  })

  test('that nobody answers expires, and the turn goes on', async () => {
    const deeds: string[] = []
    const sent = await ask([deleter(deeds)], [wish], { toolExpiresMs: 1 })
    await untilWaiting(sent.generationId, 'approval')
    // Workers look each third of a lease: another one, which has just come, looks now.
    await startWorker({ db: database.db, agents: [scripted([], { name: 'other' }).agent] })
    expect(await untilSettled(database.db, sent.generationId)).toMatchObject({
      status: 'completed',
    })
    expect(deeds).toEqual([])
    expect(toldOf(sent)).toEqual([{ error: 'nobody approved it in time' }])
  })

  test('of another process is offered to it when approved, and to a browser as well', async () => {
    const described = deleter([])
    delete described.execute
    for (const where of ['executor', 'browser'] as const) {
      const deeds: string[] = []
      const sent = await ask([described])
      const browser = () =>
        claimToolCallsFor(database.db, {
          ...{ sessionId: sent.sessionId, executorId: 'tab', tools: ['delete_file'] },
        })
      await untilWaiting(sent.generationId, 'approval')
      expect((await browser()).toolCalls).toEqual([])
      const executor =
        where === 'executor' &&
        (await startExecutor({
          db: database.db,
          tools: [deleter(deeds, { needsApproval: false })],
        }))
      const call = await untilAsked(sent)
      await approveToolCall(database.db, vote(sent, call))
      if (where === 'browser') {
        const { toolCalls } = await browser()
        expect(toolCalls).toMatchObject([{ id: call.id, attempt: 1, args: { file: 'notes.txt' } }])
        await settleToolCallFor(database.db, {
          ...{ sessionId: sent.sessionId, toolCallId: call.id as string, executorId: 'tab' },
          ...{ attempt: 1, outcome: { status: 'completed', result: { deleted: 'notes.txt' } } },
        })
      }
      await untilSettled(database.db, sent.generationId)
      expect(deeds).toEqual(where === 'executor' ? ['notes.txt'] : [])
      expect(toldOf(sent)).toEqual([{ deleted: 'notes.txt' }])
      if (executor) await executor.worker.stop()
      await sent.worker.stop()
    }
  })
})
