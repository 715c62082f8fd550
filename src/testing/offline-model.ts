/**
 * The model of a demo without a provider key: a scripted adapter with a small deterministic brain.
 *
 * It reads the last user messages, asks for the tools that answer them (only those offered, all in one
 * turn), and writes its answer from their results. Text and arguments depend on the messages alone, and
 * an answer that was cut is continued from where it stands, so a killed run ends in the same words as
 * an unbroken one. The ids of its tool calls are random, as a provider's are: they must never repeat.
 */
import type { ModelMessage } from '@tanstack/ai'
import {
  composeHelp,
  composeLongAnswer,
  composeToolAnswer,
  type AnsweredCall,
} from './compose-answer.js'
import { planToolCalls, type PlannedCall } from './plan-tool-calls.js'
import {
  continueFrom,
  messageText,
  scriptedAdapter,
  type ScriptedAdapter,
  type ScriptedRequest,
} from './scripted-adapter.js'
import { wordTokens, type ScriptedTurn } from './scripted-turn.js'

export interface OfflineModelOptions {
  /** Words a second; `Infinity` for no pace. @default 40 */
  tokensPerSecond?: number
  /** @default 'offline' */
  model?: string
}

export function offlineModel(options: OfflineModelOptions = {}): ScriptedAdapter {
  const { tokensPerSecond = 40, model = 'offline' } = options
  return scriptedAdapter({ respond: answerOffline, tokensPerSecond, model })
}

/** The brain alone: what the offline model answers to a request. */
export function answerOffline(request: Pick<ScriptedRequest, 'messages' | 'tools'>): ScriptedTurn {
  const { messages, tools } = request
  const { question, calls } = currentTurn(messages)
  const missing = missingCalls(question, calls, tools)
  if (missing.length > 0) return withUsage({ toolCalls: missing }, messages)
  const text = continueFrom(compose(question, calls, tools), messages)
  return withUsage({ text }, messages)
}

const LONG_WISH =
  /\b(?:story|essay|poem|explain|describe|elaborate|in detail|at length|long (?:answer|text|version))\b/i

function compose(
  question: string,
  calls: readonly AnsweredCall[],
  tools: readonly string[],
): string {
  if (calls.length > 0) return composeToolAnswer(calls)
  if (LONG_WISH.test(question)) return composeLongAnswer(question)
  return composeHelp(question, tools)
}

/** The last user messages (several in a row are one question) and the tool calls made since. */
function currentTurn(messages: readonly ModelMessage[]): {
  question: string
  calls: AnsweredCall[]
} {
  const last = messages.findLastIndex((message) => message.role === 'user')
  const before = messages.slice(0, last + 1).findLastIndex((message) => message.role !== 'user')
  const question = messages.slice(before + 1, last + 1).map(messageText)
  const since = messages.slice(last + 1)
  const results = new Map(
    since.flatMap((message) => (message.role === 'tool' ? [[message.toolCallId, message]] : [])),
  )
  const calls = since
    .flatMap((message) => message.toolCalls ?? [])
    .map(({ id, function: { name, arguments: json } }) => ({
      name,
      args: parsedArguments(json),
      result: toolResult(results.get(id)),
    }))
  return { question: question.join('\n'), calls }
}

/**
 * What the question still needs. Counted by tool name and not compared by arguments, which a person
 * may have edited on approval: a call that was made is never asked for twice.
 */
function missingCalls(
  question: string,
  made: readonly AnsweredCall[],
  tools: readonly string[],
): PlannedCall[] {
  const left = new Map<string, number>()
  for (const { name } of made) left.set(name, (left.get(name) ?? 0) + 1)
  return planToolCalls(question).filter(({ name }) => {
    const spare = left.get(name) ?? 0
    left.set(name, spare - 1)
    return spare <= 0 && tools.includes(name)
  })
}

function toolResult(message: ModelMessage | undefined): unknown {
  if (message === undefined) return undefined
  if (message.error !== undefined) return { error: message.error }
  return parsedJson(messageText(message))
}

function parsedArguments(json: string): Record<string, unknown> {
  const args = parsedJson(json)
  return typeof args === 'object' && args !== null ? { ...args } : {}
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return text
  }
}

/** Rough, but never absent: a token is a word. */
function withUsage(turn: ScriptedTurn, messages: readonly ModelMessage[]): ScriptedTurn {
  const promptTokens = wordTokens(messages.map(messageText).join(' ')).length
  const args = (turn.toolCalls ?? []).map((call) => JSON.stringify(call.args)).join(' ')
  const completionTokens = wordTokens(`${turn.text ?? ''} ${args}`.trim()).length
  const totalTokens = promptTokens + completionTokens
  return { ...turn, usage: { promptTokens, completionTokens, totalTokens } }
}
