/**
 * Which model the chat example talks to, chosen by the environment. The first that is set wins:
 *
 * | variable          | model                                  | also read                                                        |
 * | ----------------- | -------------------------------------- | ---------------------------------------------------------------- |
 * | OPENAI_API_KEY    | OpenAI, Responses API                  | OPENAI_MODEL, OPENAI_BASE_URL, OPENAI_API=chat-completions       |
 * | ANTHROPIC_API_KEY | Anthropic                              | ANTHROPIC_MODEL, ANTHROPIC_BASE_URL                              |
 * | OLLAMA_HOST       | Ollama, OpenAI-compatible endpoint     | OLLAMA_MODEL (required)                                          |
 * | none              | the offline model: no key, no network  |                                                                  |
 *
 * The adapter packages are loaded when they are chosen, so only the one in use must be installed.
 */
import type { AnyTextAdapter } from '@tanstack/ai'
import type { AnthropicChatModel } from '@tanstack/ai-anthropic'
import type { OpenAIChatModel } from '@tanstack/ai-openai'
import { offlineModel } from '../../src/testing/offline-model.js'

export interface ChosenModel {
  adapter: AnyTextAdapter
  /** For people: provider and model. */
  label: string
  /** What to do with an answer that was cut: only a model that takes prefill can go on in mid-sentence. */
  onInterrupted: 'continue' | 'restart'
}

export type ModelEnvironment = Readonly<Record<string, string | undefined>>

const DEFAULT_OPENAI_MODEL = 'gpt-4.1-mini'
const DEFAULT_ANTHROPIC_MODEL = 'claude-sonnet-4-5'
const OLLAMA_PORT = '11434'

export async function chooseModel(env: ModelEnvironment = process.env): Promise<ChosenModel> {
  if (env.OPENAI_API_KEY) return openaiModel(env.OPENAI_API_KEY, env)
  if (env.ANTHROPIC_API_KEY) return anthropicModel(env.ANTHROPIC_API_KEY, env)
  if (env.OLLAMA_HOST) return ollamaModel(env.OLLAMA_HOST, env)
  return {
    adapter: offlineModel(),
    label: 'offline model (no provider key is set)',
    onInterrupted: 'continue',
  }
}

async function openaiModel(apiKey: string, env: ModelEnvironment): Promise<ChosenModel> {
  const openai = await installed(
    'OPENAI_API_KEY',
    '@tanstack/ai-openai',
    () => import('@tanstack/ai-openai'),
  )
  // The list of names is there for type inference: any name that the endpoint knows will do.
  const model = (env.OPENAI_MODEL || DEFAULT_OPENAI_MODEL) as OpenAIChatModel
  const config = env.OPENAI_BASE_URL ? { baseURL: env.OPENAI_BASE_URL } : {}
  const api = env.OPENAI_API || 'responses'
  if (api !== 'responses' && api !== 'chat-completions') {
    throw new Error(`OPENAI_API is "${api}". Set it to responses or chat-completions.`)
  }
  const create = api === 'responses' ? openai.createOpenaiChat : openai.createOpenaiChatCompletions
  return {
    adapter: create(model, apiKey, config),
    label: `OpenAI ${model}`,
    onInterrupted: 'restart',
  }
}

async function anthropicModel(apiKey: string, env: ModelEnvironment): Promise<ChosenModel> {
  const anthropic = await installed(
    'ANTHROPIC_API_KEY',
    '@tanstack/ai-anthropic',
    () => import('@tanstack/ai-anthropic'),
  )
  const model = (env.ANTHROPIC_MODEL || DEFAULT_ANTHROPIC_MODEL) as AnthropicChatModel
  const config = env.ANTHROPIC_BASE_URL ? { baseURL: env.ANTHROPIC_BASE_URL } : {}
  return {
    adapter: anthropic.createAnthropicChat(model, apiKey, config),
    label: `Anthropic ${model}`,
    onInterrupted: 'restart',
  }
}

async function ollamaModel(host: string, env: ModelEnvironment): Promise<ChosenModel> {
  const model = env.OLLAMA_MODEL
  if (!model) {
    throw new Error(
      'OLLAMA_HOST is set and OLLAMA_MODEL is not. Set OLLAMA_MODEL to a model that you have pulled ' +
        'and that can call tools (`ollama list` shows them), for example OLLAMA_MODEL=qwen3.',
    )
  }
  const { openaiCompatibleText } = await installed(
    'OLLAMA_HOST',
    '@tanstack/ai-openai',
    () => import('@tanstack/ai-openai/compatible'),
  )
  const adapter = openaiCompatibleText(model, {
    name: 'ollama',
    baseURL: ollamaEndpoint(host),
    apiKey: 'ollama', // the client wants one; Ollama reads none
  })
  return { adapter, label: `Ollama ${model}`, onInterrupted: 'restart' }
}

/** OLLAMA_HOST as Ollama itself takes it (`host`, `host:port` or a URL), as an OpenAI base URL. */
export function ollamaEndpoint(host: string): string {
  const hasScheme = /^https?:\/\//.test(host)
  const url = new URL(hasScheme ? host : `http://${host}`)
  if (!hasScheme && url.port === '' && !/:\d+\/?$/.test(host)) url.port = OLLAMA_PORT
  if (url.hostname === '0.0.0.0') url.hostname = '127.0.0.1' // a bind address, not a destination
  const path = url.pathname.replace(/\/+$/, '')
  return `${url.origin}${path.endsWith('/v1') ? path : `${path}/v1`}`
}

async function installed<T>(variable: string, name: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load()
  } catch (cause) {
    throw new Error(
      `${variable} is set, but ${name} could not be loaded. Run: npm install ${name}`,
      {
        cause,
      },
    )
  }
}
