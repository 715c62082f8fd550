/**
 * What an answer is made of, in order, from either of its two sources: the live text while it is written,
 * its message afterwards. Both give the same parts under the same keys, so the change is not seen.
 */
import type {
  MessageRecord,
  ToolCallRecord,
  Transcript,
  TranscriptToolCall,
} from 'electric-ai-db/client'

export type AnswerPart =
  | { kind: 'text'; key: string; text: string }
  | { kind: 'call'; key: string; id: string; live?: TranscriptToolCall }

export function answerParts(
  transcript: Transcript,
  message: MessageRecord | undefined,
  calls: readonly ToolCallRecord[],
): AnswerPart[] {
  const parts =
    message === undefined ? partsOfTranscript(transcript, calls) : partsOfMessage(message)
  // Calls are rows as well: they are shown even where the live text cannot be read.
  const shown = new Set(parts.map(({ key }) => key))
  const missing = calls.filter(({ id }) => !shown.has(callKey(id)))
  return [...parts, ...missing.map(({ id }) => callPart(id))]
}

function partsOfTranscript({ steps }: Transcript, calls: readonly ToolCallRecord[]): AnswerPart[] {
  return steps.flatMap(({ text, toolCalls }, step) => [
    ...(text === '' ? [] : [textPart(step, text)]),
    ...toolCalls.map((live) => ({ ...callPart(rowIdOf(live, step, calls)), live })),
  ])
}

/** The live text knows a call by its provider's id, which a provider may give twice; the row's never repeats. */
function rowIdOf(
  { id }: TranscriptToolCall,
  step: number,
  calls: readonly ToolCallRecord[],
): string {
  return calls.find((call) => call.providerCallId === id && call.step === step)?.id ?? id
}

function partsOfMessage({ parts, content }: MessageRecord): AnswerPart[] {
  if (parts === null || parts.length === 0) return content === '' ? [] : [textPart(0, content)]
  return parts.map((part) =>
    part.type === 'text' ? textPart(part.step, part.text) : callPart(part.id),
  )
}

const callKey = (id: string) => `call-${id}`
const callPart = (id: string) => ({ kind: 'call' as const, key: callKey(id), id })
const textPart = (step: number, text: string) => ({
  kind: 'text' as const,
  key: `text-${step}`,
  text,
})
