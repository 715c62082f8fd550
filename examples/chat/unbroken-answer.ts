/**
 * The answer as it would be if nobody had been killed, computed without the library: the offline model's
 * brain is given the question, and the tool results as their rows have them. Its words depend on nothing else.
 */
import type { ModelMessage } from '@tanstack/ai'
import { answerOffline } from '../../src/testing.js'
import type { ToolCall } from '../../src/schema.js'
import { demoTools } from './tools.js'

export function unbrokenAnswer(question: string, calls: readonly ToolCall[]): string {
  const asked: ModelMessage = {
    role: 'assistant',
    content: null,
    toolCalls: calls.map(({ id, name, args }) => ({
      id,
      type: 'function',
      function: { name, arguments: JSON.stringify(args) },
    })),
  }
  const results = calls.map(({ id, result, error }): ModelMessage => ({
    role: 'tool',
    toolCallId: id,
    content: JSON.stringify(error === null ? result : { error }),
  }))
  const messages: ModelMessage[] = [
    { role: 'user', content: question },
    ...(calls.length > 0 ? [asked, ...results] : []),
  ]
  return answerOffline({ messages, tools: demoTools().map((tool) => tool.name) }).text ?? ''
}
