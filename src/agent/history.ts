/**
 * History: model messages built from rows. No code is replayed; what an earlier turn, attempt or process
 * produced is read back (decision 5).
 */
import type { ModelMessage } from '@tanstack/ai'
import type { LoadedMessage, LoadedToolCall } from './load.js'

/** One finished model turn of a generation. */
export interface FinishedStep {
  text: string
  toolCalls: readonly LoadedToolCall[]
}

/** The conversation so far, without the running generation's own steps. */
export function modelMessages(
  messages: readonly LoadedMessage[],
  toolCalls: readonly LoadedToolCall[],
): ModelMessage[] {
  const calls = new Map(toolCalls.map((call) => [call.id, call]))
  return inSpokenOrder(messages).flatMap((message) => spoken(message, calls))
}

/** A model turn as the provider wants it back: what it said and asked, then what came of it. */
export function stepMessages(step: FinishedStep): ModelMessage[] {
  if (step.toolCalls.length === 0) {
    return step.text === '' ? [] : [{ role: 'assistant', content: step.text }]
  }
  const asked: ModelMessage = {
    role: 'assistant',
    content: step.text === '' ? null : step.text,
    toolCalls: step.toolCalls.map((call) => ({
      id: call.providerCallId,
      type: 'function',
      function: { name: call.name, arguments: argumentsText(call.args) },
    })),
  }
  const answered = step.toolCalls.map((call): ModelMessage => ({
    role: 'tool',
    toolCallId: call.providerCallId,
    content: resultText(call),
  }))
  return [asked, ...answered]
}

/**
 * Replies stand behind what they answer: a message that arrived while an earlier one was being answered has
 * a lower `seq` than that answer, and belongs behind it.
 */
function inSpokenOrder(messages: readonly LoadedMessage[]): LoadedMessage[] {
  const began = new Map<string, number>()
  for (const { generationId, seq } of messages) {
    if (generationId !== null)
      began.set(generationId, Math.min(seq, began.get(generationId) ?? seq))
  }
  // The running generation's inbox has no generation on its rows yet: it comes last.
  const place = (message: LoadedMessage) =>
    message.generationId === null ? Infinity : began.get(message.generationId)!
  return [...messages].sort((a, b) => place(a) - place(b) || byRole(a) - byRole(b) || a.seq - b.seq)
}

const byRole = (message: LoadedMessage) => (message.role === 'assistant' ? 1 : 0)

function spoken(message: LoadedMessage, calls: Map<string, LoadedToolCall>): ModelMessage[] {
  if (message.role === 'system') return [{ role: 'user', content: `[System] ${message.content}` }]
  if (message.role === 'user' || message.parts === null) {
    return message.content === '' ? [] : [{ role: message.role, content: message.content }]
  }
  return stepsOf(message.parts, calls).flatMap(stepMessages)
}

function stepsOf(
  parts: NonNullable<LoadedMessage['parts']>,
  calls: Map<string, LoadedToolCall>,
): FinishedStep[] {
  const steps = new Map<number, { text: string; toolCalls: LoadedToolCall[] }>()
  for (const part of parts) {
    const step = steps.get(part.step) ?? { text: '', toolCalls: [] }
    steps.set(part.step, step)
    if (part.type === 'text') step.text += part.text
    else step.toolCalls.push(...[calls.get(part.id)].filter((call) => call !== undefined))
  }
  return [...steps.values()]
}

/** Malformed arguments were kept as the text they came as. */
function argumentsText(args: unknown): string {
  return typeof args === 'string' ? args : JSON.stringify(args)
}

/** What the model is told a call came to. */
export function resultText(call: Pick<LoadedToolCall, 'status' | 'result' | 'error'>): string {
  if (call.status === 'completed') return JSON.stringify(call.result ?? null)
  const error =
    call.status === 'cancelled'
      ? 'The tool call was cancelled.'
      : (call.error ?? 'The tool did not finish.')
  return JSON.stringify({ error })
}
