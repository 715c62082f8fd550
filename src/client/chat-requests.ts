/**
 * What a request of TanStack AI asks for. It sends its whole list of messages each time; what is new in it is
 * a message, an answer to an approval, or nothing: then the last message is to be answered again.
 */
import type { ModelMessage, RunAgentResumeItem, UIMessage } from '@tanstack/ai/client'
import { AiDbError } from '../errors.js'
import { toolCallOfInterrupt } from './chat-parts.js'

export type ChatRequest =
  | { kind: 'say'; id: string; content: string; metadata?: Record<string, unknown> }
  | { kind: 'vote'; votes: readonly Vote[] }
  /** `reload()`: a message that is there, to answer again. */
  | { kind: 'again'; id: string }

export interface Vote {
  readonly toolCallId: string
  readonly approved: boolean
  readonly reason?: string
}

export function chatRequestOf(
  messages: readonly (UIMessage | ModelMessage)[],
  resume: readonly RunAgentResumeItem[] | undefined,
  isKnown: (messageId: string) => boolean,
): ChatRequest {
  if (resume && resume.length > 0) return { kind: 'vote', votes: resume.map(voteOf) }
  const last = messages.at(-1)
  if (!last || last.role !== 'user') throw nothingToSend()
  const id = 'id' in last && last.id ? last.id : crypto.randomUUID()
  if (isKnown(id)) return { kind: 'again', id }
  const { tanstack: _, ...metadata } = last.metadata ?? {}
  const extra = Object.keys(metadata).length > 0 ? { metadata } : {}
  return { kind: 'say', id, content: textOf(last), ...extra }
}

function voteOf({ interruptId, status, payload }: RunAgentResumeItem): Vote {
  const toolCallId = toolCallOfInterrupt(interruptId)
  const answer = (payload ?? {}) as { approved?: unknown; editedArgs?: unknown; reason?: unknown }
  if (toolCallId === undefined || (status === 'resolved' && typeof answer.approved !== 'boolean')) {
    const fact = `Interrupt ${JSON.stringify(interruptId)} is no approval that this session asked for.`
    const cure = 'Answer approvals with { approved: true } or { approved: false }.'
    throw new AiDbError('INVALID_INPUT', `${fact} ${cure}`, { field: 'resume' })
  }
  if (answer.editedArgs !== undefined) {
    throw new AiDbError(
      'INVALID_INPUT',
      'A tool call is approved with the arguments it has. Deny it, and say what should be different.',
      { field: 'editedArgs' },
    )
  }
  const reason = typeof answer.reason === 'string' ? { reason: answer.reason } : {}
  return { toolCallId, approved: status === 'resolved' && answer.approved === true, ...reason }
}

function textOf(message: UIMessage | ModelMessage): string {
  const parts = 'parts' in message ? message.parts : message.content
  if (typeof parts === 'string') return parts
  const texts = (parts ?? []).map((part) => {
    if (part.type === 'text') return part.content
    const fact = `A message with a part of type '${part.type}' cannot be sent.`
    const cure = 'Messages are text; upload the file and send its address.'
    throw new AiDbError('INVALID_INPUT', `${fact} ${cure}`, { field: 'content' })
  })
  return texts.join('\n\n')
}

function nothingToSend(): AiDbError {
  const fact = 'The last message is no user message, and there is nothing else to send.'
  const cure =
    'Tools run in workers and tool executors, not in useChat; approvals are answered by their interrupt.'
  return new AiDbError('INVALID_INPUT', `${fact} ${cure}`, { field: 'messages' })
}
