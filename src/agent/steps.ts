/**
 * Where a generation stands, rebuilt from rows, and the pure questions about it: what comes next, what its
 * message is. Nothing here waits or writes.
 */
import { isSettledToolCall } from '../contract/status.js'
import type { MessagePart } from '../schema.js'
import { joinStepTexts, type Transcript } from '../streams/transcript.js'
import type { FinishedStep } from './history.js'
import type { Loaded, LoadedToolCall } from './load.js'

/** The finished steps of a generation at `step`, in order. */
export function finishedSteps(
  generationId: string,
  step: number,
  loaded: Loaded,
  transcript: Transcript,
): FinishedStep[] {
  return Array.from({ length: step }, (_, index) => ({
    text: transcript.steps[index]?.text ?? '',
    toolCalls: loaded.toolCalls.filter(
      (call) => call.generationId === generationId && call.step === index,
    ),
  }))
}

export type NextAction = 'run-tools' | 'ask-model' | 'give-up' | 'nothing-to-do'

/** What a generation does next. Total: every state has exactly one answer. */
export function nextAction(state: {
  steps: readonly FinishedStep[]
  inbox: readonly string[]
  maxSteps: number
}): NextAction {
  const last = state.steps.at(-1)
  if (last?.toolCalls.some((call) => !isSettledToolCall(call.status))) return 'run-tools'
  if (!last && state.inbox.length === 0) return 'nothing-to-do'
  return state.steps.length >= state.maxSteps ? 'give-up' : 'ask-model'
}

export function unsettledCalls(steps: readonly FinishedStep[]): LoadedToolCall[] {
  return (steps.at(-1)?.toolCalls ?? []).filter((call) => !isSettledToolCall(call.status))
}

/** The assistant's message; undefined when nothing was said and nothing done. */
export function messageOf(
  steps: readonly FinishedStep[],
): { content: string; parts: MessagePart[] } | undefined {
  const parts = steps.flatMap((step, index): MessagePart[] => [
    ...(step.text === '' ? [] : [{ type: 'text' as const, step: index, text: step.text }]),
    ...step.toolCalls.map((call) => ({ type: 'tool-call' as const, step: index, id: call.id })),
  ])
  if (parts.length === 0) return undefined
  return { content: joinStepTexts(steps.map((step) => step.text)), parts }
}
