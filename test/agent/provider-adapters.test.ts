/**
 * The provider adapters that the chat example chooses, over HTTP against a mock of each provider's wire
 * format: streamed text and a tool call arrive through `chat()`. No key, no network.
 */
import { LLMock } from '@copilotkit/aimock'
import { chat, toolDefinition, type StreamChunk } from '@tanstack/ai'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { chooseModel, ollamaEndpoint, type ModelEnvironment } from '../../examples/chat/model.js'

const TEXT = 'It is sunny in Paris today, with a light wind from the west.'
const mock = new LLMock({ port: 0, host: '127.0.0.1', chunkSize: 6 })

beforeAll(async () => {
  mock.addFixture({ match: { userMessage: 'tell' }, response: { content: TEXT } })
  mock.addFixture({
    match: { userMessage: 'call' },
    response: {
      toolCalls: [{ id: 'call_w1', name: 'weather', arguments: '{"city":"Paris"}' }],
    },
  })
  mock.addFixture({
    match: { userMessage: 'fail' },
    response: { error: { message: 'bad request, says the mock' }, status: 400 },
  })
  await mock.start()
})

afterEach(() => {
  vi.doUnmock('@tanstack/ai-anthropic')
  vi.resetModules()
})

afterAll(() => mock.stop())

/** A definition without `execute`: the call is seen and nothing here runs it. */
const weather = toolDefinition({
  name: 'weather',
  description: 'The weather in a city.',
  inputSchema: z.object({ city: z.string() }),
})

async function ask(env: ModelEnvironment, content: string): Promise<StreamChunk[]> {
  const { adapter } = await chooseModel(env)
  const chunks: StreamChunk[] = []
  const messages = [{ role: 'user' as const, content }]
  for await (const chunk of chat({ adapter, messages, tools: [weather], debug: false }))
    chunks.push(chunk)
  return chunks
}

describe.each<[string, string, () => ModelEnvironment]>([
  [
    'OpenAI Responses',
    '/v1/responses',
    () => ({ OPENAI_API_KEY: 'k', OPENAI_BASE_URL: `${mock.url}/v1` }),
  ],
  [
    'OpenAI chat completions',
    '/v1/chat/completions',
    () => ({
      OPENAI_API_KEY: 'k',
      OPENAI_BASE_URL: `${mock.url}/v1`,
      OPENAI_API: 'chat-completions',
      OPENAI_MODEL: 'gpt-4o',
    }),
  ],
  ['Anthropic', '/v1/messages', () => ({ ANTHROPIC_API_KEY: 'k', ANTHROPIC_BASE_URL: mock.url })],
  [
    'Ollama',
    '/v1/chat/completions',
    () => ({ OLLAMA_HOST: mock.url.replace('http://', ''), OLLAMA_MODEL: 'qwen3' }),
  ],
])('%s', (_, path, env) => {
  it('streams its text', async () => {
    const before = mock.getRequests().length
    const chunks = await ask(env(), 'tell me')
    const deltas = chunks.flatMap((one) => (one.type === 'TEXT_MESSAGE_CONTENT' ? [one.delta] : []))
    expect(deltas.join('')).toBe(TEXT)
    expect(deltas.length).toBeGreaterThan(3)
    expect(
      mock
        .getRequests()
        .slice(before)
        .map((request) => request.path.split('?')[0]),
    ).toEqual([path])
  })

  it('brings a tool call with the id the provider gave it', async () => {
    const chunks = await ask(env(), 'call it')
    const start = chunks.find((chunk) => chunk.type === 'TOOL_CALL_START')
    expect(start).toMatchObject({ toolCallId: 'call_w1', toolCallName: 'weather' })
    const json = chunks
      .map((chunk) => (chunk.type === 'TOOL_CALL_ARGS' ? chunk.delta : ''))
      .join('')
    expect(JSON.parse(json)).toEqual({ city: 'Paris' })
  })

  it('turns a refusal into RUN_ERROR', async () => {
    const chunks = await ask(env(), 'fail now')
    expect(chunks.at(-1)).toMatchObject({ type: 'RUN_ERROR' })
    expect(JSON.stringify(chunks.at(-1))).toContain('bad request, says the mock')
  })
})

describe('chooseModel', () => {
  it('takes the offline model when no key is set', async () => {
    const { adapter, label } = await chooseModel({})
    expect([adapter.name, adapter.model]).toEqual(['scripted', 'offline'])
    expect(label).toContain('offline')
  })

  it('labels provider and model, with the model that the environment names', async () => {
    const openai = await chooseModel({ OPENAI_API_KEY: 'k', OPENAI_MODEL: 'gpt-5-mini' })
    expect([openai.label, openai.adapter.model]).toEqual(['OpenAI gpt-5-mini', 'gpt-5-mini'])
    const anthropic = await chooseModel({ ANTHROPIC_API_KEY: 'k' })
    expect(anthropic.label).toMatch(/^Anthropic claude-/)
  })

  it('names OLLAMA_MODEL when it is missing, and OPENAI_API when it is unknown', async () => {
    await expect(chooseModel({ OLLAMA_HOST: 'localhost' })).rejects.toThrow('Set OLLAMA_MODEL')
    const env = { OPENAI_API_KEY: 'k', OPENAI_API: 'grpc' }
    await expect(chooseModel(env)).rejects.toThrow('OPENAI_API is "grpc"')
  })

  it('names the package to install when it is missing', async () => {
    vi.doMock('@tanstack/ai-anthropic', () => {
      throw new Error('Cannot find package')
    })
    const fresh = await import('../../examples/chat/model.js')
    await expect(fresh.chooseModel({ ANTHROPIC_API_KEY: 'k' })).rejects.toThrow(
      'npm install @tanstack/ai-anthropic',
    )
  })

  it.each([
    ['localhost', 'http://localhost:11434/v1'],
    ['0.0.0.0:9999', 'http://127.0.0.1:9999/v1'],
    ['http://box:80/', 'http://box/v1'],
    ['https://ollama.example/v1', 'https://ollama.example/v1'],
  ])('reads OLLAMA_HOST=%s as %s', (host, endpoint) => {
    expect(ollamaEndpoint(host)).toBe(endpoint)
  })
})
