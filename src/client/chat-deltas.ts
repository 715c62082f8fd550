/**
 * How one message becomes the next by appending: which changes that can express, and the AG-UI chunks
 * that express them.
 */
import type { MessagePart, StreamChunk, ToolCallPart, UIMessage } from '@tanstack/ai/client'
import { EventType } from '@tanstack/ai/client'

/** Do `after`'s messages follow from `before`'s by nothing but growth of those that are `open`? */
export function growsTo(
  before: readonly UIMessage[],
  after: readonly UIMessage[],
  open: ReadonlySet<string>,
): boolean {
  if (after.length < before.length) return false
  return after.every((message, index) => {
    const old = before[index]
    if (!old) return open.has(message.id)
    if (old.id !== message.id || rowOf(old) !== rowOf(message)) return false
    if (!open.has(message.id) && old.parts.length !== message.parts.length) return false
    return partsGrow(old.parts, message.parts, open.has(message.id))
  })
}

function rowOf({ metadata }: UIMessage): unknown {
  return metadata?.['messageId']
}

function partsGrow(
  before: readonly MessagePart[],
  after: readonly MessagePart[],
  open: boolean,
): boolean {
  if (after.length < before.length) return false
  return before.every((old, index) => {
    const part = after[index]!
    const last = open && index === before.length - 1
    if (old.type === 'text' && part.type === 'text') {
      return last ? part.content.startsWith(old.content) : part.content === old.content
    }
    if (old.type === 'tool-call' && part.type === 'tool-call') {
      return sameJson(old, part) || (open && callGrows(old, part, after))
    }
    return sameJson(old, part)
  })
}

function callGrows(old: ToolCallPart, call: ToolCallPart, parts: readonly MessagePart[]): boolean {
  if (old.id !== call.id || old.name !== call.name || !sameJson(old.approval, call.approval)) {
    return false
  }
  // The result's own part, which is new, tells of the output.
  if (call.output !== undefined && !hasResult(parts, call.id)) return false
  if (old.output !== undefined) return false
  if (isComplete(old)) return old.arguments === call.arguments && sameJson(old.input, call.input)
  return call.arguments.startsWith(old.arguments)
}

function hasResult(parts: readonly MessagePart[], id: string): boolean {
  return parts.some((part) => part.type === 'tool-result' && part.toolCallId === id)
}

function isComplete({ state }: ToolCallPart): boolean {
  return state !== 'input-streaming'
}

function sameJson(a: unknown, b: unknown): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b)
}

export function messageStart(messageId: string): StreamChunk {
  return { type: EventType.TEXT_MESSAGE_START, messageId, role: 'assistant' }
}

/** What leads from the parts a client has of a message to the message. They must grow to it. */
export function deltasOf({ id, parts }: UIMessage, before: readonly MessagePart[]): StreamChunk[] {
  return parts.flatMap((part, index) => {
    const old = before[index]
    if (part.type === 'text') {
      return textDeltas(id, part.content, old?.type === 'text' ? old.content : undefined)
    }
    if (part.type === 'tool-call') {
      return callDeltas(id, part, old?.type === 'tool-call' ? old : undefined)
    }
    return part.type === 'tool-result' && !old ? [resultOf(id, part)] : []
  })
}

function textDeltas(messageId: string, content: string, old: string | undefined): StreamChunk[] {
  const delta = content.slice(old?.length ?? 0)
  const grown: StreamChunk[] =
    delta === '' ? [] : [{ type: EventType.TEXT_MESSAGE_CONTENT, messageId, delta }]
  return old === undefined ? [messageStart(messageId), ...grown] : grown
}

function callDeltas(
  parentMessageId: string,
  call: ToolCallPart,
  old: ToolCallPart | undefined,
): StreamChunk[] {
  const { id: toolCallId, name: toolCallName, input } = call
  const chunks: StreamChunk[] = []
  if (!old) {
    chunks.push(messageStart(parentMessageId))
    chunks.push({ type: EventType.TOOL_CALL_START, toolCallId, toolCallName, parentMessageId })
  }
  const delta = call.arguments.slice(old?.arguments.length ?? 0)
  if (delta !== '') chunks.push({ type: EventType.TOOL_CALL_ARGS, toolCallId, delta })
  if (isComplete(call) && !(old && isComplete(old))) {
    chunks.push({
      type: EventType.TOOL_CALL_END,
      toolCallId,
      ...(input !== undefined && { input }),
    })
  }
  return chunks
}

function resultOf(
  messageId: string,
  { toolCallId, content, state }: Extract<MessagePart, { type: 'tool-result' }>,
): StreamChunk {
  return {
    type: EventType.TOOL_CALL_RESULT,
    messageId,
    toolCallId,
    content: content as string,
    ...(state === 'error' && { metadata: { tanstack: { state: 'output-error' } } }),
  }
}
