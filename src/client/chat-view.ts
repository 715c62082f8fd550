/**
 * A session as TanStack AI sees a chat: `UIMessage`s in order, and the runs that write some of them. Pure:
 * rows, live texts and the votes of this tab in, a value out; the same in every tab.
 *
 * A run is a generation, and so is the message it writes: both go by the generation's id, while it is
 * streamed and when it is a row. A generation that waits for a vote of this tab is interrupted.
 *
 * Left out: what agents ask each other, and what an edit or a retry has superseded.
 */
import type { Interrupt, UIMessage } from '@tanstack/ai/client'
import type {
  ApprovalRecord,
  GenerationRecord,
  MessageRecord,
  ToolCallRecord,
} from '../contract/records.js'
import { isSettledGeneration } from '../contract/status.js'
import {
  awaitsVote,
  interruptOf,
  lacksVotes,
  partsOf,
  type ChatStep,
  type Votes,
} from './chat-parts.js'
import type { LiveTextState } from './live-texts.js'

export interface ChatRows {
  readonly messages: readonly MessageRecord[]
  readonly generations: readonly GenerationRecord[]
  readonly toolCalls: readonly ToolCallRecord[]
  readonly approvals: readonly ApprovalRecord[]
  /** What this tab has answered: tool call's id → approved. */
  readonly votes: Votes
  /** Live text of the generations that are watched. */
  live(generationId: string): LiveTextState | undefined
}

export interface ChatRun {
  readonly id: string
  /** 'waiting': this tab has voted, and others have to. */
  readonly state: 'running' | 'interrupted' | 'waiting' | 'finished' | 'failed'
  readonly error?: string
  /** The messages it answers. */
  readonly inbox: readonly string[]
  readonly interrupts: readonly Interrupt[]
}

export interface ChatView {
  readonly messages: readonly UIMessage[]
  readonly runs: ReadonlyMap<string, ChatRun>
}

export function chatView(rows: ChatRows): ChatView {
  const spoken = rows.messages
    .filter((message) => message.supersededBy === null && isBetweenPeople(message))
    .sort((a, b) => a.seq - b.seq)
  const messageOf = new Map(rows.messages.map((message) => [message.id, message]))
  const written = new Set(spoken.map((message) => message.generationId))
  const generations = rows.generations
    .filter((generation) => isShown(generation, messageOf, rows))
    .sort((a, b) => a.createdAt.getTime() - b.createdAt.getTime())
  const runs = new Map(generations.map((generation) => [generation.id, runOf(generation, rows)]))
  const messages = spoken.map((message) => uiMessageOf(message, rows))
  for (const generation of generations) {
    if (written.has(generation.id) || isReplaced(generation, generations, messageOf)) continue
    const message = liveMessageOf(generation, rows)
    if (message) messages.splice(placeOf(generation, spoken, messages.length), 0, message)
  }
  return { messages, runs }
}

function isBetweenPeople({ role, requestId, inReplyTo }: MessageRecord): boolean {
  return role !== 'system' && requestId === null && inReplyTo === null
}

/** Does a generation answer a person? */
function isShown(
  { inbox, status, agentName, attempt }: GenerationRecord,
  messageOf: ReadonlyMap<string, MessageRecord>,
  { messages }: ChatRows,
): boolean {
  if (inbox.length > 0) return inbox.some((id) => messageOf.get(id)?.requestId === null)
  // Not begun yet: it will take in what lies there for its agent. One that ended so had nothing to do.
  if (attempt > 0 || isSettledGeneration(status)) return false
  return messages.some(
    (message) =>
      !message.processed &&
      message.supersededBy === null &&
      message.targetAgent === agentName &&
      message.requestId === null,
  )
}

/** Was it answered again, or was what it answers taken back? */
function isReplaced(
  { id, inbox, createdAt }: GenerationRecord,
  generations: readonly GenerationRecord[],
  messageOf: ReadonlyMap<string, MessageRecord>,
): boolean {
  if (inbox.length === 0) return false
  const answered = inbox.map((one) => messageOf.get(one))
  if (answered.every((message) => message?.supersededBy != null)) return true
  return generations.some(
    (other) =>
      other.id !== id &&
      other.createdAt > createdAt &&
      other.inbox.some((one) => inbox.includes(one)),
  )
}

function runOf(generation: GenerationRecord, rows: ChatRows): ChatRun {
  const { id, inbox, status, error, cancelReason } = generation
  const live = rows.live(id)
  // Its row is settled before its message is here: the text's state waits for both.
  const settled = isSettledGeneration(status) && (!live || isOver(live))
  if (!settled) return { id, inbox, ...unsettledState(generation, rows) }
  const why = status === 'failed' || (status === 'cancelled' && cancelReason !== 'by-user')
  if (!why) return { id, inbox, state: 'finished', interrupts: [] }
  const reason = error ?? `The answer was ${status} (${cancelReason ?? 'no reason given'}).`
  return { id, inbox, state: 'failed', error: reason, interrupts: [] }
}

function unsettledState(
  { id, status }: GenerationRecord,
  { toolCalls, approvals, votes }: ChatRows,
): Pick<ChatRun, 'state' | 'interrupts'> {
  if (isSettledGeneration(status)) return { state: 'running', interrupts: [] }
  const asking = toolCalls.filter((call) => call.generationId === id && awaitsVote(call))
  const interrupts = asking.filter((call) => !votes.has(call.id)).map(interruptOf)
  if (interrupts.length > 0) return { state: 'interrupted', interrupts }
  const short = asking.some((call) => lacksVotes(call, approvals))
  return { state: short ? 'waiting' : 'running', interrupts }
}

function isOver({ status }: LiveTextState): boolean {
  return status === 'completed' || status === 'failed' || status === 'cancelled'
}

function uiMessageOf(message: MessageRecord, rows: ChatRows): UIMessage {
  const { id, role, content, generationId, actorId, metadata, createdAt } = message
  const calls = rows.toolCalls.filter((call) => call.generationId === generationId)
  return {
    id: generationId ?? id,
    role: role === 'assistant' ? 'assistant' : 'user',
    parts:
      generationId === null
        ? [{ type: 'text', content }]
        : partsOf(stepsOfRow(message, rows), calls, rows.votes),
    createdAt,
    metadata: { ...metadata, actorId, messageId: id, ...(generationId && { generationId }) },
  }
}

/** The texts of a written message by step. Its calls are rows of their own, which may come later than it. */
function stepsOfRow({ content, parts, generationId }: MessageRecord, rows: ChatRows): ChatStep[] {
  if (!parts) return [{ text: content, calls: [], ended: true }]
  const shown = rows.live(generationId!)?.transcript.steps ?? []
  const steps: ChatStep[] = []
  for (const part of parts) {
    while (steps.length <= part.step) {
      steps.push({ text: '', calls: shown[steps.length]?.toolCalls ?? [], ended: true })
    }
    if (part.type === 'text') steps[part.step] = { ...steps[part.step]!, text: part.text }
  }
  return steps
}

/** What a generation has said that is no row (yet). */
function liveMessageOf(generation: GenerationRecord, rows: ChatRows): UIMessage | undefined {
  const { id, agentName, createdAt } = generation
  const live = rows.live(id)
  if (!live && isSettledGeneration(generation.status)) return undefined
  const steps = (live?.transcript.steps ?? []).map(({ text, toolCalls, ended }) => ({
    text,
    calls: toolCalls,
    ended,
  }))
  const calls = rows.toolCalls.filter((call) => call.generationId === id)
  const parts = partsOf(steps, calls, rows.votes)
  // A message of white space alone is dropped by TanStack AI when it ends, and its status with it.
  if (!parts.some((part) => part.type !== 'text' || part.content.trim() !== '')) return undefined
  const metadata = { actorId: agentName, generationId: id }
  return { id, role: 'assistant', parts, createdAt, metadata }
}

/** Last while it is written, as its row will be; what an ended one has left stays behind what it answers. */
function placeOf(
  { inbox, status }: GenerationRecord,
  spoken: readonly MessageRecord[],
  end: number,
): number {
  if (!isSettledGeneration(status)) return end
  const last = spoken.findLastIndex((message) => inbox.includes(message.id))
  return last < 0 ? end : last + 1
}
