/** The offline model: what it asks its tools, and that a killed answer ends in the same words. */
import { chat, type ModelMessage, type StreamChunk } from '@tanstack/ai'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { demoTools } from '../../examples/chat/tools.js'
import { answerOffline, offlineModel } from '../../src/testing/offline-model.js'
import { planToolCalls } from '../../src/testing/plan-tool-calls.js'

const TOOLS = ['calculate', 'current_time', 'lookup', 'delete_all_notes']
const NOON = new Date('2026-10-10T12:00:00Z')

function ask(...questions: string[]): ModelMessage[] {
  return questions.map((content) => ({ role: 'user', content }))
}

function plan(question: string): string[] {
  return planToolCalls(question).map(({ name, args }) => [name, ...Object.values(args)].join(' '))
}

/** The messages of a question whose tools have answered. */
function answered(question: string, results: readonly unknown[]): ModelMessage[] {
  const toolCalls = planToolCalls(question).map(({ name, args }, i) => ({
    id: `call_${i}`,
    type: 'function' as const,
    function: { name, arguments: JSON.stringify(args) },
  }))
  const tools = results.map((result, i): ModelMessage => {
    return { role: 'tool', toolCallId: `call_${i}`, content: JSON.stringify(result) }
  })
  return [...ask(question), { role: 'assistant', content: '', toolCalls }, ...tools]
}

async function converse(messages: ModelMessage[]): Promise<string> {
  const adapter = offlineModel({ tokensPerSecond: Infinity })
  const tools = demoTools({ now: () => NOON })
  let text = ''
  const stream: AsyncIterable<StreamChunk> = chat({ adapter, messages, tools })
  for await (const chunk of stream) if (chunk.type === 'TEXT_MESSAGE_CONTENT') text += chunk.delta
  return text
}

describe('what it understands', () => {
  it.each<[string, string[]]>([
    ['17*23', ['calculate 17*23']],
    ['What is 12 / 4 + 3?', ['calculate 12 / 4 + 3']],
    ['what is 17 times 23, and (1+2)*3.', ['calculate 17 * 23', 'calculate (1+2)*3']],
    ['1,000,000 / 7', ['calculate 1000000 / 7']],
    ['- 3 + 4\n- 5 - -2', ['calculate 3 + 4', 'calculate 5 - -2']],
    ['What time is it in Tokyo?', ['current_time Tokyo']],
    ['time in New York right now and in Paris', ['current_time New York', 'current_time Paris']],
    ['What is the time?', ['current_time UTC']],
    ['who is Ada Lovelace?', ['lookup Ada Lovelace']],
    ['What is an octopus and look up the Eiffel Tower', ['lookup octopus', 'lookup Eiffel Tower']],
    ['Look up Postgres and who is Marie Curie', ['lookup Postgres', 'lookup Marie Curie']],
    ['Delete everything', ['delete_all_notes']],
    ['delete the file notes.txt.', ['delete_file notes.txt']],
    [
      'Keep a.md, but erase src/b.ts and c.tar.gz!',
      ['delete_file src/b.ts', 'delete_file c.tar.gz'],
    ],
    [
      'what is 2^10, what time is it in San Francisco and who was Alan Turing?',
      ['calculate 2^10', 'current_time San Francisco', 'lookup Alan Turing'],
    ],
  ])('%j', (question, calls) => {
    expect(plan(question)).toEqual(calls)
  })

  it.each([
    'hello',
    'who are you',
    'tell me about yourself',
    'on 2026-10-10 at 10:30',
    'the first time in history',
    'you do it all the time.',
  ])('asks no tool for %j', (question) => {
    expect(plan(question)).toEqual([])
  })

  it('asks all tools of all waiting questions in one turn, and only the tools offered', () => {
    const messages = ask('17*23', 'and the time in Tokyo?', 'and delete my notes')
    const names = (tools: string[]) =>
      answerOffline({ messages, tools }).toolCalls?.map((call) => call.name)
    expect(names(TOOLS)).toEqual(['calculate', 'current_time', 'delete_all_notes'])
    expect(names(['current_time'])).toEqual(['current_time'])
    expect(answerOffline({ messages, tools: [] }).text).toContain('17*23 and the time in Tokyo?')
  })

  it('asks only for what has not been called yet, even when a person edited the arguments', () => {
    const messages = answered('17*23 and who is Ada Lovelace?', [{ result: 391 }])
    const made = messages[1]?.toolCalls
    if (made?.[0] === undefined) throw new Error('the question needs a call')
    made[0].function.arguments = '{"expression":"17*24"}'
    made.splice(1)
    const turn = answerOffline({ messages, tools: TOOLS })
    expect(turn.toolCalls).toEqual([{ name: 'lookup', args: { topic: 'Ada Lovelace' } }])
  })
})

describe('what it answers', () => {
  it('quotes every result, in at least 45 words, with real tools', async () => {
    const text = await converse(
      ask('What is 17*23, what time is it in Tokyo and who is Ada Lovelace?'),
    )
    expect(text).toContain('17*23 is 391.')
    expect(text).toContain('In Tokyo it is 21:00 on Saturday, 10 October 2026.')
    expect(text).toContain('English mathematician')
    expect(text.split(/\s+/).length).toBeGreaterThanOrEqual(45)
  })

  it('says honestly what failed, what is unknown and what was refused', async () => {
    const text = await converse(ask('4/0, the time in Atlantis, and look up Zaphod'))
    expect(text).toContain('it divides by zero')
    expect(text).toContain('No time zone is known for "Atlantis"')
    expect(text).toContain('has no entry for it')
    const declined = answered('delete my notes', [{ error: 'The user declined.' }])
    expect(answerOffline({ messages: declined, tools: TOOLS }).text).toContain('The user declined.')
  })

  it('answers the newest question, not the one before it', async () => {
    const first = ask('17*23')
    const text = await converse([
      ...first,
      { role: 'assistant', content: '17*23 is 391.' },
      ...ask('2+2'),
    ])
    expect(text).toContain('2+2 is 4.')
    expect(text).not.toContain('391')
  })

  it('echoes a question it has no tool for, and tells a long story on request', () => {
    const help = answerOffline({ messages: ask('Bonjour!'), tools: TOOLS })
    expect(help.text).toContain('“Bonjour!”')
    const story = answerOffline({ messages: ask('Tell me a story'), tools: TOOLS })
    expect(story.text?.split(/\s+/).length).toBeGreaterThan(180)
    expect(story.text?.split('\n\n').length).toBeGreaterThan(3)
  })

  it('counts words as usage', () => {
    const { usage } = answerOffline({ messages: ask('one two three'), tools: [] })
    expect(usage?.promptTokens).toBe(3)
    expect(usage?.totalTokens).toBe(3 + (usage?.completionTokens ?? 0))
    expect(usage?.completionTokens).toBeGreaterThan(10)
  })
})

describe('an answer that was cut', () => {
  const REQUESTS: [string, ModelMessage[]][] = [
    ['help', ask('hi')],
    ['story', ask('tell me a story')],
    [
      'tools',
      answered('17*23 and the time in Tokyo', [
        { expression: '17*23', result: 391 },
        { place: 'Tokyo', time: '21:00', weekday: 'Saturday', date: '2026-10-10' },
      ]),
    ],
  ]
  const answer = (messages: ModelMessage[]): string =>
    answerOffline({ messages, tools: TOOLS }).text ?? ''
  const cutAt = (messages: ModelMessage[], content: string): ModelMessage[] => [
    ...messages,
    { role: 'assistant', content },
  ]

  it.each(REQUESTS)('continues to the same words from every cut point: %s', (_, messages) => {
    const full = answer(messages)
    expect(answer(messages)).toBe(full)
    for (let cut = 0; cut <= full.length; cut++) {
      const prefix = full.slice(0, cut)
      expect(prefix + answer(cutAt(messages, prefix))).toBe(full)
    }
  })

  it.each(REQUESTS)('continues to the same words however often it is cut: %s', (_, messages) => {
    const full = answer(messages)
    const cuts = fc.array(fc.nat({ max: full.length }), { maxLength: 6 })
    fc.assert(
      fc.property(cuts, (points) => {
        let text = ''
        let transcript = messages
        for (const point of points.toSorted((a, b) => a - b)) {
          const piece = answer(transcript).slice(0, point - text.length)
          text += piece
          transcript = cutAt(transcript, piece)
        }
        expect(text + answer(transcript)).toBe(full)
      }),
    )
  })

  it('is continued through chat()', async () => {
    const full = await converse(ask('tell me a story'))
    const prefix = full.slice(0, 123)
    expect(prefix + (await converse(cutAt(ask('tell me a story'), prefix)))).toBe(full)
  })
})
