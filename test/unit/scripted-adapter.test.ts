/** The scripted adapter through the real `chat()`: what a test scripts is what the loop sees. */
import { chat, toolDefinition, type ModelMessage, type StreamChunk } from '@tanstack/ai'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import {
  continueFrom,
  scriptedAdapter,
  type ScriptedAdapter,
  type ScriptedTurn,
} from '../../src/testing/scripted-adapter.js'

const ASK: ModelMessage[] = [{ role: 'user', content: 'Hello?' }]

afterEach(() => {
  vi.useRealTimers()
})

async function collect(stream: AsyncIterable<StreamChunk>): Promise<StreamChunk[]> {
  const chunks: StreamChunk[] = []
  for await (const chunk of stream) chunks.push(chunk)
  return chunks
}

function textOf(chunks: readonly StreamChunk[]): string {
  return chunks.map((chunk) => (chunk.type === 'TEXT_MESSAGE_CONTENT' ? chunk.delta : '')).join('')
}

function run(adapter: ScriptedAdapter, abortController?: AbortController): Promise<StreamChunk[]> {
  return collect(chat({ adapter, debug: false, messages: ASK, abortController }))
}

/** A tool that notes what it was called with. */
function addTool() {
  const calls: { a: number; b: number }[] = []
  const tool = toolDefinition({
    name: 'add',
    description: 'Adds.',
    inputSchema: z.object({ a: z.number(), b: z.number() }),
  }).server((args) => {
    calls.push(args)
    return { sum: args.a + args.b }
  })
  return { tool, calls }
}

describe('text', () => {
  it.each([
    'One two three.',
    '  leading and trailing \n\n whitespace\t',
    'emoji 👩‍👩‍👧‍👦 and 漢字が空白なしで長く続く文章がここにありますよね',
    'x'.repeat(100),
  ])('streams in tokens whose concatenation is exactly %j', async (text) => {
    const chunks = await run(scriptedAdapter({ turns: [{ text }] }))
    expect(textOf(chunks)).toBe(text)
  })

  it('streams one token a word, between START and END of one message', async () => {
    const chunks = await run(scriptedAdapter({ turns: [{ text: 'One two three.' }] }))
    expect(chunks.map((chunk) => chunk.type)).toEqual([
      'RUN_STARTED',
      'TEXT_MESSAGE_START',
      'TEXT_MESSAGE_CONTENT',
      'TEXT_MESSAGE_CONTENT',
      'TEXT_MESSAGE_CONTENT',
      'TEXT_MESSAGE_END',
      'RUN_FINISHED',
    ])
  })

  it('streams thinking before the text, and reports usage, finish reason and the response id', async () => {
    const usage = { promptTokens: 3, completionTokens: 2, totalTokens: 5 }
    const turn = { thinking: 'Hm, well.', text: 'Yes.', usage, responseId: 'resp_1' }
    const chunks = await run(scriptedAdapter({ turns: [turn] }))
    const thinking = chunks.filter((chunk) => chunk.type === 'REASONING_MESSAGE_CONTENT')
    expect(thinking.map((chunk) => chunk.delta).join('')).toBe('Hm, well.')
    expect(chunks.at(-1)).toMatchObject({
      type: 'RUN_FINISHED',
      usage,
      metadata: { responseId: 'resp_1', tanstack: { finishReason: 'stop' } },
    })
    expect(chunks.find((chunk) => chunk.type === 'TEXT_MESSAGE_START')).toMatchObject({
      metadata: { responseId: 'resp_1' },
    })
  })
})

describe('tool calls', () => {
  it('runs the tools of one turn and hands their results to the next call', async () => {
    const { tool, calls } = addTool()
    const adapter = scriptedAdapter({
      turns: [
        {
          toolCalls: [
            { id: 'call_1', name: 'add', args: { a: 1, b: 2 } },
            { name: 'add', args: { a: 3, b: 4 } },
          ],
        },
        { text: 'Three and seven.' },
      ],
    })
    const chunks = await collect(
      chat({ adapter, debug: false, messages: ASK, tools: [tool], systemPrompts: ['Be brief.'] }),
    )
    expect(calls).toEqual([
      { a: 1, b: 2 },
      { a: 3, b: 4 },
    ])
    expect(textOf(chunks)).toBe('Three and seven.')
    const starts = chunks.filter((chunk) => chunk.type === 'TOOL_CALL_START')
    expect(starts.map((chunk) => chunk.toolCallId)).toEqual([
      'call_1',
      expect.stringMatching(/^call_[0-9a-f-]{36}$/),
    ])
    expect(adapter.calls).toHaveLength(2)
    expect(adapter.calls[0]).toMatchObject({
      call: 0,
      tools: ['add'],
      systemPrompts: ['Be brief.'],
    })
    expect(adapter.calls[0]?.messages).toHaveLength(1)
    expect(adapter.calls[1]?.messages.filter((message) => message.role === 'tool')).toHaveLength(2)
  })

  it('streams arguments in a few deltas that join to the JSON', async () => {
    const toolCalls = [{ name: 'add', args: { a: 1234567, b: 7654321 } }]
    const adapter = scriptedAdapter({ turns: [{ toolCalls }, { text: 'ok' }] })
    const chunks = await collect(
      chat({ adapter, debug: false, messages: ASK, tools: [addTool().tool] }),
    )
    const deltas = chunks.flatMap((chunk) => (chunk.type === 'TOOL_CALL_ARGS' ? [chunk.delta] : []))
    expect(deltas.length).toBeGreaterThan(1)
    expect(deltas.join('')).toBe('{"a":1234567,"b":7654321}')
  })

  it('sends a string of arguments raw, so malformed JSON becomes a tool error and the loop goes on', async () => {
    const { tool, calls } = addTool()
    const toolCalls = [{ name: 'add', args: '{"a": 1, "b"' }]
    const adapter = scriptedAdapter({ turns: [{ toolCalls }, { text: 'Sorry.' }] })
    const chunks = await collect(chat({ adapter, debug: false, messages: ASK, tools: [tool] }))
    expect(calls).toEqual([])
    const result = chunks.find((chunk) => chunk.type === 'TOOL_CALL_RESULT')
    expect(result).toMatchObject({ content: expect.stringContaining('Failed to parse') as string })
    expect(textOf(chunks)).toBe('Sorry.')
  })
})

describe('a turn that does not finish', () => {
  it('yields RUN_ERROR after its text', async () => {
    const turn: ScriptedTurn = { text: 'Half an', then: 'error', error: 'overloaded' }
    const chunks = await run(scriptedAdapter({ turns: [turn] }))
    expect(textOf(chunks)).toBe('Half an')
    expect(chunks.at(-1)).toMatchObject({ type: 'RUN_ERROR', message: 'overloaded' })
    expect(chunks.map((chunk) => chunk.type)).not.toContain('TEXT_MESSAGE_END')
  })

  it('throws out of chat() after its text', async () => {
    const adapter = scriptedAdapter({ turns: [{ text: 'Half', then: 'throw', error: 'boom' }] })
    const seen: StreamChunk[] = []
    const reading = (async () => {
      for await (const chunk of chat({ adapter, debug: false, messages: ASK })) seen.push(chunk)
    })()
    await expect(reading).rejects.toThrow('boom')
    expect(textOf(seen)).toBe('Half')
  })

  it('hangs in the middle of its tool arguments until aborted, and the tool never runs', async () => {
    const { tool, calls } = addTool()
    const toolCalls = [{ name: 'add', args: '{"a": 1,' }]
    const adapter = scriptedAdapter({ turns: [{ toolCalls, then: 'hang' }] })
    const abortController = new AbortController()
    const seen: StreamChunk[] = []
    for await (const chunk of chat({
      adapter,
      debug: false,
      messages: ASK,
      tools: [tool],
      abortController,
    })) {
      seen.push(chunk)
      const json = seen.map((one) => (one.type === 'TOOL_CALL_ARGS' ? one.delta : '')).join('')
      if (json === toolCalls[0]?.args) queueMicrotask(() => abortController.abort())
    }
    expect(calls).toEqual([])
    expect(seen.map((chunk) => chunk.type)).not.toContain('TOOL_CALL_END')
  })

  it.each<[string, ScriptedTurn | Promise<ScriptedTurn>]>([
    ['a hang', { text: 'One', then: 'hang' }],
    [
      'a latch',
      { text: 'One two', beforeToken: (i) => (i === 1 ? new Promise(() => {}) : undefined) },
    ],
    ['a script that never answers', new Promise(() => {})],
  ])('lets go of %s as soon as its signal fires', async (_, turn) => {
    const adapter = scriptedAdapter({ respond: () => turn })
    const abortController = new AbortController()
    const done = run(adapter, abortController)
    await vi.waitFor(() => expect(adapter.calls).toHaveLength(1))
    setImmediate(() => abortController.abort())
    const chunks = await done
    expect(chunks.map((chunk) => chunk.type)).not.toContain('RUN_FINISHED')
  })

  it('says how to mend a script that is too short', async () => {
    const adapter = scriptedAdapter({ turns: [{ text: 'once' }] })
    await run(adapter)
    await expect(run(adapter)).rejects.toThrow('1 turn(s) and the model was called 2 times')
  })
})

describe('pace', () => {
  const TEN_WORDS = 'one two three four five six seven eight nine ten'

  it('keeps an absolute schedule: a slow consumer does not shift later tokens', async () => {
    vi.useFakeTimers()
    const start = performance.now()
    const at: number[] = []
    const adapter = scriptedAdapter({ turns: [{ text: TEN_WORDS }], tokensPerSecond: 40 })
    const reading = (async () => {
      for await (const chunk of chat({ adapter, debug: false, messages: ASK })) {
        if (chunk.type !== 'TEXT_MESSAGE_CONTENT') continue
        at.push(performance.now() - start)
        await new Promise((resolve) => setTimeout(resolve, 20)) // busy for most of the 25 ms between tokens
      }
    })()
    await vi.advanceTimersByTimeAsync(1000)
    await reading
    expect(at.map(Math.round)).toEqual([0, 25, 50, 75, 100, 125, 150, 175, 200, 225])
  })

  it('stops in the middle of a wait when aborted, and leaves no timer and no listener', async () => {
    vi.useFakeTimers()
    const adapter = scriptedAdapter({ turns: [{ text: TEN_WORDS }], tokensPerSecond: 0.01 })
    const abortController = new AbortController()
    const added = vi.spyOn(abortController.signal, 'addEventListener')
    const removed = vi.spyOn(abortController.signal, 'removeEventListener')
    const stream = adapter.chatStream({
      model: 'scripted',
      messages: ASK,
      request: { signal: abortController.signal },
      logger: undefined as never, // the adapter never logs
    })
    const done = collect(stream)
    await vi.advanceTimersByTimeAsync(50)
    expect(vi.getTimerCount()).toBe(1)
    abortController.abort()
    expect(textOf(await done)).toBe('one')
    expect(vi.getTimerCount()).toBe(0)
    expect(added.mock.calls.length).toBeGreaterThan(0)
    expect(removed.mock.calls.length).toBe(added.mock.calls.length)
  })

  it('lets a test hold back any token', async () => {
    const seen: number[] = []
    const beforeToken = (index: number): void => void seen.push(index)
    await run(scriptedAdapter({ turns: [{ text: 'a b c', beforeToken }] }))
    expect(seen).toEqual([0, 1, 2])
  })
})

describe('options', () => {
  it('refuses both ways to script, neither, and a pace of nothing', () => {
    const turns = [{ text: 'x' }]
    const both = { turns, respond: () => ({ text: 'x' }) } as unknown as { turns: ScriptedTurn[] }
    expect(() => scriptedAdapter(both)).toThrow('not both')
    expect(() => scriptedAdapter({} as { turns: ScriptedTurn[] })).toThrow('needs `respond`')
    expect(() => scriptedAdapter({ turns, tokensPerSecond: 0 })).toThrow('more than 0')
  })

  it('answers structured output with the object its text spells', async () => {
    const adapter = scriptedAdapter({ turns: [{ text: '{"name":"Ada"}' }, { text: 'Ada' }] })
    const outputSchema = z.object({ name: z.string() })
    await expect(
      chat({ adapter, debug: false, messages: ASK, outputSchema, stream: false }),
    ).resolves.toEqual({
      name: 'Ada',
    })
    await expect(
      chat({ adapter, debug: false, messages: ASK, outputSchema, stream: false }),
    ).rejects.toThrow('not JSON')
  })
})

describe('continueFrom', () => {
  const FULL = 'The quick brown fox.'
  const cut = (...texts: string[]): ModelMessage[] => [
    ...ASK,
    ...texts.map((content): ModelMessage => ({ role: 'assistant', content })),
  ]

  it('gives what is left after the text that was cut', () => {
    expect(continueFrom(FULL, cut('The quick'))).toBe(' brown fox.')
    expect(continueFrom(FULL, cut('The', ' quick'))).toBe(' brown fox.')
    expect(continueFrom(FULL, cut(FULL))).toBe('')
  })

  it('gives all of it when there is nothing to continue', () => {
    expect(continueFrom(FULL, ASK)).toBe(FULL)
    expect(continueFrom(FULL, cut('A different text'))).toBe(FULL)
    const toolCall = {
      id: 'c',
      type: 'function',
      function: { name: 'f', arguments: '{}' },
    } as const
    const asked: ModelMessage = { role: 'assistant', content: 'The', toolCalls: [toolCall] }
    expect(continueFrom(FULL, [...ASK, asked])).toBe(FULL)
  })
})
