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
  world.gate.loseAnswers(({ path }) => path.includes(sessionId) && path.endsWith('/settle'))
  tabOf(sessionId, 'here', ran)
  expect(await settled(calls[0]!)).toMatchObject({ status: 'completed', attempt: 1 })
  const settles = () => world.gate.passed.filter(({ path }) => path.endsWith(`${calls[0]}/settle`))
  await pollUntil('the repeat', () => settles().length >= 2)
  expect(ran).toHaveLength(1)
})

test('a claim whose answer is lost is not kept alive by what else the tab runs', async () => {
  const { sessionId, calls } = await waitingFor(2)
  const ran: string[] = []
  let finish = () => {}
  const running = new Promise<void>((done) => (finish = done))
  world.gate.loseAnswers(({ path }) => path.includes(sessionId) && path.endsWith('/claim'))
  tabOf(sessionId, 'here', ran, () => running)
  const { sql, schema } = world.database
  const holders = () => sql`
    select id, worker_id from ${sql(schema)}.tool_calls
     where session_id = ${sessionId} and status = 'executing'`
  await pollUntil(
    'both claimed, one of them run',
    async () => (await holders()).length === 2 && ran.length === 1,
  )
  const [one, other] = await holders()
  expect(one!['worker_id']).toBe(other!['worker_id'])
  // The lease runs out. (Renewed it would be, and the lost claim held for ever, if it were used on.)
  await sql`update ${sql(schema)}.workers set lease_expires_at = now() - interval '1 second'
             where id = ${one!['worker_id'] as string}`
  await scenario(world.database as unknown as TestDatabase, schema).store.recoverWorkers()
  await pollUntil('the lost one run', () => ran.length > 1)
  for (const { worker_id: holder } of await holders()) expect(holder).not.toBe(one!['worker_id'])
  finish()
  for (const id of calls) expect(await settled(id)).toMatchObject({ status: 'completed' })
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
