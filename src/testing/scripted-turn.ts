/**
 * One scripted model turn, played as the AG-UI events a provider adapter yields: RUN_STARTED,
 * REASONING_*, TEXT_MESSAGE_*, TOOL_CALL_* and RUN_FINISHED or RUN_ERROR.
 *
 * A turn that does not finish is cut where it stands: its last message or tool call gets no END, as
 * when a provider's connection breaks mid-sentence or mid-arguments.
 *
 * Pace is an absolute schedule (token k is due at start + k / rate), so timer slack never adds up, and
 * a consumer that was slow gets what is overdue at once.
 */
import { EventType, type AdapterYieldChunk, type TokenUsage } from '@tanstack/ai'
import { ABORTED, hangUntilAborted, pause, untilAborted } from './until-aborted.js'

export interface ScriptedToolCall {
  /** The provider's call id. @default `call_<uuid>` */
  id?: string
  name: string
  /** Sent as JSON; a string is sent raw, so that malformed arguments can be scripted. */
  args: unknown
}

export interface ScriptedTurn {
  /** Streamed in word-sized tokens whose concatenation is exactly this. */
  text?: string
  /** Streamed before the text, as reasoning. */
  thinking?: string
  /** Streamed after the text, each one's arguments in a few deltas. */
  toolCalls?: readonly ScriptedToolCall[]
  /** Reported by RUN_FINISHED. @default none */
  usage?: TokenUsage
  /** The provider's id of this response, in `metadata.responseId` of RUN_STARTED, TEXT_MESSAGE_START and RUN_FINISHED. */
  responseId?: string
  /** After the last token: finish, yield RUN_ERROR, throw, or hang until aborted. @default 'finish' */
  then?: 'finish' | 'error' | 'throw' | 'hang'
  /** The message of 'error' and 'throw'. */
  error?: string
  /** Runs before each delta of the turn (0-based over thinking, text and arguments): a test's latch. */
  beforeToken?: (index: number) => void | Promise<void>
}

export interface TurnFrame {
  model: string
  threadId: string
  runId: string
  parentRunId: string | undefined
  signal: AbortSignal | undefined
  /** Undefined: as fast as it is read. */
  tokensPerSecond: number | undefined
}

const ARGUMENT_DELTAS = 4
const TOKENS: ReadonlySet<string> = new Set([
  EventType.REASONING_MESSAGE_CONTENT,
  EventType.TEXT_MESSAGE_CONTENT,
  EventType.TOOL_CALL_ARGS,
])
const CLOSERS: ReadonlySet<string> = new Set([
  EventType.REASONING_MESSAGE_END,
  EventType.REASONING_END,
  EventType.TEXT_MESSAGE_END,
  EventType.TOOL_CALL_END,
])

/** Plays the turn; returns early, with nothing more yielded, once the frame's signal fires. */
export async function* playTurn(
  turn: ScriptedTurn,
  frame: TurnFrame,
): AsyncGenerator<AdapterYieldChunk, void, void> {
  const start = performance.now()
  let token = 0
  for (const chunk of turnChunks(turn, frame)) {
    if (TOKENS.has(chunk.type)) {
      if (frame.tokensPerSecond !== undefined) {
        const due = start + (token * 1000) / frame.tokensPerSecond
        if (due > performance.now()) await pause(due - performance.now(), frame.signal)
      }
      if ((await untilAborted(turn.beforeToken?.(token), frame.signal)) === ABORTED) return
      token += 1
    }
    if (frame.signal?.aborted) return
    yield Object.assign(chunk, { timestamp: Date.now() })
  }
  if (turn.then === 'throw') throw new Error(turn.error ?? 'The scripted model threw.')
  if (turn.then === 'hang') await hangUntilAborted(frame.signal)
}

/** `text` as word-sized tokens, each with the whitespace before it. */
export function wordTokens(text: string): string[] {
  return text.match(/\s*\S{1,24}|\s+/gu) ?? []
}

function turnChunks(turn: ScriptedTurn, frame: TurnFrame): AdapterYieldChunk[] {
  const metadata =
    turn.responseId === undefined ? {} : { metadata: { responseId: turn.responseId } }
  const { model, threadId, runId, parentRunId } = frame
  const messageId = `msg_${crypto.randomUUID()}`
  const body = [
    ...reasoningChunks(turn.thinking ?? ''),
    ...textChunks(turn.text ?? '', { messageId, ...metadata }),
    ...(turn.toolCalls ?? []).flatMap((call) => toolCallChunks(call, messageId)),
  ]
  const started: AdapterYieldChunk = {
    type: EventType.RUN_STARTED,
    ...{ runId, threadId, model, parentRunId, ...metadata },
  }
  const then = turn.then ?? 'finish'
  if (then === 'finish') {
    const finishReason = turn.toolCalls?.length ? 'tool_calls' : 'stop'
    const finished: AdapterYieldChunk = {
      type: EventType.RUN_FINISHED,
      ...{ runId, threadId, model, finishReason, ...metadata },
      ...(turn.usage === undefined ? {} : { usage: turn.usage }),
    }
    return [started, ...body, finished]
  }
  while (CLOSERS.has(body.at(-1)?.type ?? '')) body.pop()
  if (then !== 'error') return [started, ...body]
  const message = turn.error ?? 'The scripted model failed.'
  return [started, ...body, { type: EventType.RUN_ERROR, runId, threadId, model, message }]
}

function reasoningChunks(thinking: string): AdapterYieldChunk[] {
  if (thinking === '') return []
  const messageId = `reasoning_${crypto.randomUUID()}`
  return [
    { type: EventType.REASONING_START, messageId },
    { type: EventType.REASONING_MESSAGE_START, messageId, role: 'reasoning' },
    ...wordTokens(thinking).map((delta): AdapterYieldChunk => ({
      type: EventType.REASONING_MESSAGE_CONTENT,
      messageId,
      delta,
    })),
    { type: EventType.REASONING_MESSAGE_END, messageId },
    { type: EventType.REASONING_END, messageId },
  ]
}

function textChunks(
  text: string,
  head: { messageId: string; metadata?: { responseId: string } },
): AdapterYieldChunk[] {
  if (text === '') return []
  const { messageId } = head
  return [
    { type: EventType.TEXT_MESSAGE_START, role: 'assistant', ...head },
    ...wordTokens(text).map((delta): AdapterYieldChunk => ({
      type: EventType.TEXT_MESSAGE_CONTENT,
      messageId,
      delta,
    })),
    { type: EventType.TEXT_MESSAGE_END, messageId },
  ]
}

function toolCallChunks(call: ScriptedToolCall, parentMessageId: string): AdapterYieldChunk[] {
  const toolCallId = call.id ?? `call_${crypto.randomUUID()}`
  const json = typeof call.args === 'string' ? call.args : JSON.stringify(call.args ?? {})
  return [
    { type: EventType.TOOL_CALL_START, toolCallId, toolCallName: call.name, parentMessageId },
    ...pieces(json, ARGUMENT_DELTAS).map((delta): AdapterYieldChunk => ({
      type: EventType.TOOL_CALL_ARGS,
      toolCallId,
      delta,
    })),
    { type: EventType.TOOL_CALL_END, toolCallId },
  ]
}

/** At most `count` pieces, cut between code points. */
function pieces(text: string, count: number): string[] {
  const points = Array.from(text)
  const size = Math.max(1, Math.ceil(points.length / count))
  return Array.from({ length: Math.ceil(points.length / size) }, (_, i) =>
    points.slice(i * size, (i + 1) * size).join(''),
  )
}
