/** Two tabs, one conversation: what one does the other sees, and both end up with what the rows say. */
import { beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { ChatSession } from '../../src/client.js'
import type { ScriptedTurn } from '../../src/testing.js'
import { pollUntil } from '../support/poll-until.js'
import { scripted, startWorker } from '../worker/turn-world.js'
import { createClientWorld, newestGeneration, shows, type ClientWorld } from './client-world.js'

let world: ClientWorld

beforeAll(async () => {
  world = await createClientWorld()
})

const double = {
  name: 'double',
  description: 'Doubles a number',
  inputSchema: z.object({ n: z.number() }),
  execute: ({ n }: { n: number }) => ({ doubled: n * 2 }),
}

async function startAgent(
  turns: readonly ScriptedTurn[],
  options: Parameters<typeof scripted>[1] = {},
) {
  const { db, schema } = world.database
  const { agent } = scripted(turns, options)
  return startWorker({ db, schema, agents: [agent] })
}

async function twoTabs(): Promise<[ChatSession, ChatSession]> {
  const sessionId = await world.newSession()
  const [here, there] = [world.openTab(sessionId), world.openTab(sessionId)]
  await Promise.all([here.ready, there.ready])
  return [here, there]
}

/** A turn that stops before its nth word until it is let go on. */
function heldTurn(text: string, at: number) {
  let arrived!: () => void
  let goOn!: () => void
  const reached = new Promise<void>((resolve) => (arrived = resolve))
  const open = new Promise<void>((resolve) => (goOn = resolve))
  const turn: ScriptedTurn = {
    text,
    beforeToken: (index) => {
      if (index !== at) return
      arrived()
      return open
    },
  }
  return { turn, reached, goOn }
}

const statusOf = (session: ChatSession, id: string) =>
  session.collections.generations.get(id)?.status

/** Reads a text to its end, as a component would. */
function watch(session: ChatSession, generationId: string) {
  const text = session.text(generationId)
  const seen: string[] = []
  const stop = text.subscribe(() => {
    if (seen.at(-1) !== text.get().text) seen.push(text.get().text)
  })
  return {
    seen,
    stop,
    shows: (wanted: string) => pollUntil(`'${wanted}'`, () => text.get().text === wanted),
    ended: () =>
      pollUntil('the end of a text', () =>
        ['completed', 'failed', 'cancelled'].includes(text.get().status) ? text.get() : undefined,
      ),
  }
}

describe('a conversation with tools', () => {
  test('is the same in two tabs, whichever of them speaks', async () => {
    await startAgent(
      [
        { toolCalls: [{ id: 'c1', name: 'double', args: { n: 21 } }] },
        { text: 'It is 42.' },
        { text: 'You are welcome.' },
      ],
      { tools: [double] },
    )
    const [here, there] = await twoTabs()
    await here.send('Double 21').isPersisted.promise
    const first = ['user: Double 21', 'assistant: It is 42.']
    await Promise.all([shows(here, first), shows(there, first)])
    await there.send('Thanks').isPersisted.promise
    const all = [...first, 'user: Thanks', 'assistant: You are welcome.']
    await Promise.all([shows(here, all), shows(there, all)])
    for (const tab of [here, there]) {
      // Rows of two tables come by two shapes, in their own time.
      const calls = await pollUntil('the settled call', () => {
        const rows = [...tab.collections.toolCalls.values()]
        return rows.some(({ status }) => status === 'completed') && rows
      })
      expect(calls.map(({ name, status, result }) => ({ name, status, result }))).toEqual([
        { name: 'double', status: 'completed', result: { doubled: 42 } },
      ])
    }
    expect(world.errors).toEqual([])
  })
})

describe('live text', () => {
  test('is the same for one who joins, or reloads, in the middle of a sentence', async () => {
    const sentence = 'The sky is blue because the air scatters blue light more than red.'
    const { turn, reached, goOn } = heldTurn(sentence, 6)
    await startAgent([turn])
    const [here, there] = await twoTabs()
    here.send('Why is the sky blue?')
    const id = await newestGeneration(here)
    const early = watch(here, id)
    await reached
    await early.shows('The sky is blue because the')
    const late = watch(there, id)
    await late.shows('The sky is blue because the')
    const reloaded = world.openTab(here.sessionId)
    await here.close()
    const again = watch(reloaded, id)
    await again.shows('The sky is blue because the')
    goOn()
    expect([(await late.ended()).text, (await again.ended()).text]).toEqual([sentence, sentence])
    // Nobody ever saw a text that was not a beginning of the sentence.
    for (const text of [...early.seen, ...late.seen, ...again.seen]) {
      expect(sentence.startsWith(text), text).toBe(true)
    }
  })

  test('of a settled generation needs no request at all', async () => {
    await startAgent([{ text: 'Done before anybody looked.' }])
    const [here, there] = await twoTabs()
    here.send('Go')
    await shows(there, ['user: Go', 'assistant: Done before anybody looked.'])
    const id = await newestGeneration(there)
    await pollUntil('settled', () => statusOf(there, id) === 'completed')
    const before = world.gate.passed.filter(({ path }) => path.includes('/stream')).length
    const { ended, stop } = watch(there, id)
    expect(await ended()).toMatchObject({
      text: 'Done before anybody looked.',
      status: 'completed',
    })
    stop()
    expect(world.gate.passed.filter(({ path }) => path.includes('/stream'))).toHaveLength(before)
  })

  test('is read once for all who watch, and not at all when nobody does', async () => {
    const { turn, reached, goOn } = heldTurn('One two three.', 2)
    await startAgent([turn])
    const [here] = await twoTabs()
    here.send('Count')
    const id = await newestGeneration(here)
    await reached
    const streamsOf = () =>
      world.gate.passed.filter(({ path }) => path.includes(`/generations/${id}/stream`)).length
    const one = watch(here, id)
    const two = watch(here, id)
    await Promise.all([one.shows('One two'), two.shows('One two')])
    expect(streamsOf()).toBe(1)
    one.stop()
    two.stop()
    const open = world.gate.open()
    goOn()
    await shows(here, ['user: Count', 'assistant: One two three.'])
    expect(streamsOf()).toBe(1)
    expect(open).toBeGreaterThan(0)
    expect(here.text(id).get()).toMatchObject({ text: 'One two three.' })
  })
})

describe('what one tab does, the other sees', () => {
  test('cancel: the run stops, and the text that was shown stays', async () => {
    const { turn, reached, goOn } = heldTurn('I could go on for ever and ever.', 3)
    await startAgent([turn])
    const [here, there] = await twoTabs()
    here.send('Go on')
    const id = await newestGeneration(here)
    const text = watch(here, id)
    await reached
    await text.shows('I could go')
    expect(await newestGeneration(there)).toBe(id)
    const cancel = there.cancel(id)
    expect(statusOf(there, id)).toBe('cancelled')
    await cancel.isPersisted.promise
    expect(await text.ended()).toMatchObject({ status: 'cancelled', text: 'I could go' })
    goOn()
  })

  test('retry: another answer takes the place of the first', async () => {
    await startAgent([{ text: 'First answer.' }, { text: 'Second answer.' }])
    const [here, there] = await twoTabs()
    here.send('Say something')
    await shows(there, ['user: Say something', 'assistant: First answer.'])
    const id = await newestGeneration(there)
    await pollUntil('settled', () => statusOf(there, id) === 'completed')
    const retry = there.retry(id)
    await shows(there, ['user: Say something'])
    await retry.isPersisted.promise
    const all = ['user: Say something', 'assistant: Second answer.']
    await Promise.all([shows(here, all), shows(there, all)])
  })

  test('edit: what followed the edited message is superseded', async () => {
    await startAgent([{ text: 'Blue.' }, { text: 'Green.' }])
    const [here, there] = await twoTabs()
    const { id } = here.send('Which colour has the sky?')
    await shows(there, ['user: Which colour has the sky?', 'assistant: Blue.'])
    const edit = there.edit(id, 'Which colour has grass?')
    expect(edit.id).not.toBe(id)
    await shows(there, ['user: Which colour has grass?'])
    await edit.isPersisted.promise
    const all = ['user: Which colour has grass?', 'assistant: Green.']
    await Promise.all([shows(here, all), shows(there, all)])
  })

  test.each([
    ['approve', 'completed'],
    ['deny', 'failed'],
  ] as const)('%s: the call of the other tab is %s', async (verb, status) => {
    await startAgent(
      [{ toolCalls: [{ id: `c-${verb}`, name: 'double', args: { n: 4 } }] }, { text: 'So be it.' }],
      { tools: [{ ...double, needsApproval: true }] },
    )
    const [here, there] = await twoTabs()
    here.send('Double 4, if I may')
    const call = await pollUntil('the call', () => [...there.collections.toolCalls.values()][0])
    expect(call.approvalsRequired).toBe(1)
    const vote = there[verb](call.id, { reason: 'because' })
    expect(there.collections.approvals.get(vote.id)?.action).toMatch(/approved|denied/)
    await vote.isPersisted.promise
    await shows(here, ['user: Double 4, if I may', 'assistant: So be it.'])
    await pollUntil(
      'the call to end',
      () => here.collections.toolCalls.get(call.id)?.status === status,
    )
    expect(here.collections.approvals.get(vote.id)).toMatchObject({ reason: 'because' })
  })
})
