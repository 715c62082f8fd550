/**
 * What people do in a session: each write as plain data (it survives a reload), the request it is, and how
 * it shows before the server has answered.
 *
 * Optimistic rows say what the server will say, as far as it can be known here; the synced row has
 * the last word. A write changes only collections whose rows its transaction touches, because
 * it is confirmed by that transaction's arrival in each of them.
 */
import type { GenerationRecord, MessageRecord } from '../contract/records.js'
import {
  paths,
  type ApprovalBody,
  type EditBody,
  type RetryBody,
  type SendBody,
} from '../contract/requests.js'
import { isSettledGeneration } from '../contract/status.js'
import type { WriteRequest } from './handler-requests.js'
import type { SessionCollections } from './session-collections.js'

export type SessionWrite =
  | { verb: 'send'; id: string; content: string; agent: string; metadata?: Record<string, unknown> }
  | { verb: 'edit'; id: string; messageId: string; content: string }
  /** `id` of a cancel is the generation's own. */
  | { verb: 'cancel'; id: string }
  | { verb: 'retry'; id: string; generationId: string }
  | {
      verb: 'approve' | 'deny'
      id: string
      toolCallId: string
      argsHash: string
      reason?: string
    }

type WriteOf<Verb extends SessionWrite['verb']> = Extract<SessionWrite, { verb: Verb }>

export function requestOf(sessionId: string, write: SessionWrite): WriteRequest {
  switch (write.verb) {
    case 'send': {
      const { id, content, agent, metadata } = write
      const body: SendBody = { id, content, agent, ...(metadata && { metadata }) }
      return { method: 'POST', path: paths.messages(sessionId), body }
    }
    case 'edit': {
      const body: EditBody = { id: write.id, content: write.content }
      return { method: 'PATCH', path: paths.message(sessionId, write.messageId), body }
    }
    case 'cancel':
      return { method: 'POST', path: paths.cancel(sessionId, write.id), body: {} }
    case 'retry': {
      const body: RetryBody = { id: write.id }
      return { method: 'POST', path: paths.retry(sessionId, write.generationId), body }
    }
    case 'approve':
    case 'deny': {
      const { id, argsHash, reason } = write
      const body: ApprovalBody = { id, argsHash, ...(reason !== undefined && { reason }) }
      return { method: 'POST', path: paths[write.verb](sessionId, write.toolCallId), body }
    }
  }
}

/** Above every `seq` there will be, and still exact. */
const OPTIMISTIC_SEQ = 2 ** 52

export class SessionWriteShower {
  readonly #sessionId: string
  readonly #actorId: string
  readonly #collections: SessionCollections
  #sent = 0

  constructor(sessionId: string, actorId: string, collections: SessionCollections) {
    this.#sessionId = sessionId
    this.#actorId = actorId
    this.#collections = collections
  }

  readonly show = (write: SessionWrite): void => {
    switch (write.verb) {
      case 'send':
        return this.#insertMessage(write.id, write.agent, write.content, write.metadata ?? {})
      case 'edit':
        return this.#edit(write)
      case 'cancel':
        return this.#cancel(write)
      case 'retry':
        return this.#retry(write)
      case 'approve':
      case 'deny':
        return this.#vote(write)
    }
  }

  /** A write that was made before a reload may have landed: then its row is there already. */
  #insertMessage(id: string, agent: string, content: string, metadata: Record<string, unknown>) {
    const { messages } = this.#collections
    if (messages.has(id)) return
    this.#sent += 1
    const now = new Date()
    messages.insert({
      id,
      sessionId: this.#sessionId,
      seq: OPTIMISTIC_SEQ + this.#sent,
      role: 'user',
      actorId: this.#actorId,
      targetAgent: agent,
      content,
      parts: null,
      processed: false,
      processedBy: null,
      generationId: null,
      requestId: null,
      inReplyTo: null,
      supersededBy: null,
      metadata,
      createdAt: now,
      updatedAt: now,
    })
  }

  #edit({ id, messageId, content }: WriteOf<'edit'>): void {
    const { messages } = this.#collections
    const edited = messages.get(messageId)
    if (!edited || messages.has(id)) return
    this.#supersede(edited.seq, id)
    this.#insertMessage(id, edited.targetAgent, content, edited.metadata)
  }

  #supersede(fromSeq: number, by: string): void {
    const { messages } = this.#collections
    // What another write under way supersedes is taken as well: that one may be refused.
    const gone = [...messages.values()].filter(
      ({ seq, supersededBy, $synced }) => seq >= fromSeq && (supersededBy === null || !$synced),
    )
    for (const { id } of gone) {
      messages.update(id, (draft: MessageRecord) => {
        draft.supersededBy = by
        draft.processed = true
      })
    }
  }

  #cancel({ id }: WriteOf<'cancel'>): void {
    const { generations } = this.#collections
    const row = generations.get(id)
    if (!row || isSettledGeneration(row.status)) return
    generations.update(id, (draft: GenerationRecord) => {
      draft.status = 'cancelled'
      draft.cancelReason = 'by-user'
      draft.waitReason = null
      draft.completedAt = new Date()
    })
  }

  #retry({ id, generationId }: WriteOf<'retry'>): void {
    const { generations, messages } = this.#collections
    const row = generations.get(generationId)
    if (!row || generations.has(id)) return
    const answers = [...messages.values()].filter((message) => message.generationId === row.id)
    if (answers.length > 0) this.#supersede(Math.min(...answers.map(({ seq }) => seq)), id)
    const now = new Date()
    generations.insert({
      ...blankGeneration,
      id,
      sessionId: row.sessionId,
      agentName: row.agentName,
      inbox: row.inbox,
      createdAt: now,
      updatedAt: now,
    })
  }

  #vote({ verb, id, toolCallId, argsHash, reason }: WriteOf<'approve' | 'deny'>): void {
    const { approvals } = this.#collections
    if (approvals.has(id)) return
    approvals.insert({
      id,
      toolCallId,
      sessionId: this.#sessionId,
      action: verb === 'approve' ? 'approved' : 'denied',
      actorId: this.#actorId,
      argsHash,
      reason: reason ?? null,
      createdAt: new Date(),
    })
  }
}

const blankGeneration = {
  status: 'pending',
  cancelReason: null,
  waitReason: null,
  error: null,
  attempt: 0,
  workerId: null,
  step: 0,
  model: null,
  finishReason: null,
  inputTokens: 0,
  outputTokens: 0,
  metadata: {},
  startedAt: null,
  completedAt: null,
} as const
