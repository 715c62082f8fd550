/** Tools that run where the person is: effects of several tabs over one session, with the handler’s claims. */
import { toolDefinition } from '@tanstack/ai'
import { eq } from '@tanstack/db'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { handlerToolClaims } from '../../src/client.js'
import { createToolExecutionEffect } from '../../src/index.js'
import { scenario } from '../postgres/rows.js'
import type { TestDatabase } from '../support/database.js'
import { pollUntil } from '../support/poll-until.js'
import { createClientWorld, type ClientWorld } from './client-world.js'

const lookup = toolDefinition({
  name: 'lookup',
  description: 'Looks something up where the person is.',
  inputSchema: z.object({ q: z.number() }),
  outputSchema: z.object({ by: z.string() }),
})

let world: ClientWorld
beforeAll(async () => {
  world = await createClientWorld()
})

/** A generation that waits for so many calls. */
async function waitingFor(count: number) {
  const here = scenario(world.database as unknown as TestDatabase, world.database.schema)
  const run = await here.running()
  const calls = await here.calls(run, count, 'pending')
  await here.store.putDownGeneration(run.id, run.attempt, 'tools')
  return { sessionId: run.sessionId, calls }
}

function tabOf(sessionId: string, name: string, ran: string[], run?: () => Promise<unknown>) {
  const tab = world.openTab(sessionId)
  const claims = handlerToolClaims({ url: `${world.gate.url}/ai`, sessionId })
  const effect = createToolExecutionEffect({
    query: (q) =>
      q.from({ call: tab.collections.toolCalls }).where(({ call }) => eq(call.status, 'pending')),
    tools: [lookup],
    implementations: {
      lookup: async (_args, { toolCallId, attempt }) => {
        ran.push(`${toolCallId} ${attempt}`)
        await run?.()
        return { by: name }
      },
    },
    claim: claims.claim,
  })
  onTestFinished(async () => {
    await effect.dispose()
    claims.close()
  })
  return { tab, effect, claims }
}

async function settled(id: string) {
  const { sql, schema } = world.database
  return pollUntil(`call ${id} settled`, async () => {
    const [row] = await sql`
      select status, result, error, attempt from ${sql(schema)}.tool_calls
       where id = ${id} and completed_at is not null`
    return row
  })
}

test('of two tabs each call is run by one, its result is a row, and the other tab sees it', async () => {
  const { sessionId, calls } = await waitingFor(10)
  const ran: string[] = []
  const tabs = ['here', 'there'].map((name) => tabOf(sessionId, name, ran))
  for (const id of calls) {
    expect(await settled(id)).toMatchObject({ status: 'completed', attempt: 1 })
  }
  expect(ran.toSorted()).toEqual(calls.map((id) => `${id} 1`).toSorted())
  for (const { tab } of tabs) {
    await pollUntil('every result', () =>
      calls.every((id) => tab.collections.toolCalls.get(id)?.status === 'completed'),
    )
  }
})

test('an exception is the call’s failure', async () => {
  const { sessionId, calls } = await waitingFor(1)
  tabOf(sessionId, 'here', [], () => Promise.reject(new Error('no such place')))
  expect(await settled(calls[0]!)).toMatchObject({ status: 'failed', error: 'no such place' })
})

test('a result whose answer is lost is written once all the same', async () => {
  const { sessionId, calls } = await waitingFor(1)
  const ran: string[] = []
  tabOf(sessionId, 'here', ran, async () => {
    const letThrough = world.gate.answer(({ path }) => path.endsWith('/settle'), 503)
    void pollUntil('a settle that failed', () =>
      world.gate.passed.some(({ path }) => path.endsWith('/settle')),
    ).then(letThrough, letThrough)
  })
  expect(await settled(calls[0]!)).toMatchObject({ status: 'completed', attempt: 1 })
  expect(ran).toHaveLength(1)
})

test('what a lapsed lease held is another’s, and a late result of the first lands nowhere', async () => {
  const { sessionId, calls } = await waitingFor(1)
  const ran: string[] = []
  let finish = () => {}
  const first = tabOf(sessionId, 'first', ran, () => new Promise<void>((done) => (finish = done)))
  await pollUntil('the first run', () => ran.length === 1)
  const { sql, schema } = world.database
  await sql`update ${sql(schema)}.workers set lease_expires_at = now() - interval '1 second'
             where id like 'browser:%'`
  const here = scenario(world.database as unknown as TestDatabase, schema)
  await here.store.recoverWorkers()
  tabOf(sessionId, 'second', ran)
  expect(await settled(calls[0]!)).toMatchObject({ result: { by: 'second' }, attempt: 2 })
  finish()
  await first.effect.dispose()
  expect(await settled(calls[0]!)).toMatchObject({ result: { by: 'second' }, attempt: 2 })
})
