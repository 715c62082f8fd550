/**
 * What goes over HTTP between a browser session and the handler: every verb's path, body and answer.
 *
 * Both sides import this file, so they cannot drift. Paths are relative to where the host mounts the
 * handler. Every write is idempotent by an id that the client makes: the id of the row it creates, or,
 * where it creates none, the row it moves. Repeating one answers like the first time, with the txid of a
 * transaction that touched the row, so that its echo arrives (a no-op update never echoes).
 */
import { z } from 'zod'
import type { GenerationStatus } from './status.js'

/** What an actor may be allowed to do. `authorize` is asked with one of these for every request. */
export type Verb =
  | 'list-sessions'
  | 'create-session'
  | 'rename-session'
  | 'delete-session'
  | 'read'
  | 'send'
  | 'edit'
  | 'cancel'
  | 'retry'
  | 'approve'
  | 'deny'
  | 'execute-tools'

/** A part of a path cannot be a dot segment: on its way it would be taken for one, encoded or not. */
const id = z
  .string()
  .min(1)
  .max(200)
  .refine((value) => value !== '.' && value !== '..', 'is a dot segment of a path, no id')
const metadata = z.record(z.string(), z.unknown())

export const createSessionBody = z.strictObject({
  id: id.optional(),
  title: z.string().max(1000).optional(),
  metadata: metadata.optional(),
})

export const renameSessionBody = z.strictObject({ title: z.string().trim().min(1).max(1000) })

export const sendBody = z.strictObject({
  /** The message's id, and so the idempotency key. The header `Idempotency-Key` stands in for it. */
  id,
  content: z.string(),
  /** The agent it is for. @default the handler's `defaultAgent` */
  agent: id.optional(),
  metadata: metadata.optional(),
})

export const editBody = z.strictObject({
  /** The id of the message that takes the edited one's place. */
  id,
  content: z.string(),
})

export const cancelBody = z.strictObject({})

/** `id`: of the new generation, unless one is queued already, which then answers it. */
export const retryBody = z.strictObject({ id })

export const approvalBody = z.strictObject({
  /** The approval's id. */
  id,
  /** Hash of the arguments that were shown. Others by now: 409, and nothing happens. */
  argsHash: z.string().length(64),
  reason: z.string().max(2000).optional(),
})

export const claimToolsBody = z.strictObject({
  /** One per tab or device; its lease holds what it claims. */
  executorId: id,
  tools: z.array(id).min(1).max(100),
  /** Only these calls: what a tool execution effect asks for. */
  toolCallIds: z.array(z.string().min(1).max(400)).min(1).max(20).optional(),
  limit: z.number().int().min(1).max(20).default(1),
  leaseMs: z.number().int().min(5_000).max(120_000).default(30_000),
})

export const renewToolsBody = claimToolsBody.pick({ executorId: true, leaseMs: true })

export const settleToolBody = z.strictObject({
  executorId: id,
  attempt: z.number().int().min(1),
  outcome: z.discriminatedUnion('status', [
    z.strictObject({ status: z.literal('completed'), result: z.unknown() }),
    z.strictObject({ status: z.literal('failed'), error: z.string().min(1).max(20_000) }),
  ]),
})

/**
 * Long polls of several shapes in one request, which is answered when the first of them is: over HTTP/1.1 a
 * browser has six connections for all its tabs, and a poll for each shape would take them all.
 */
export const livePollsBody = z.strictObject({
  polls: z
    .array(
      z.strictObject({
        /** Absent: the list of sessions. */
        sessionId: id.optional(),
        shape: id,
        /** As it would stand in the shape's own URL. */
        query: z.string().max(4000),
      }),
    )
    .min(1)
    .max(50),
})

export type CreateSessionBody = z.input<typeof createSessionBody>
export type SendBody = z.input<typeof sendBody>
export type EditBody = z.input<typeof editBody>
export type RetryBody = z.input<typeof retryBody>
export type ApprovalBody = z.input<typeof approvalBody>
export type LivePollsBody = z.input<typeof livePollsBody>
export type ClaimToolsBody = z.input<typeof claimToolsBody>
export type SettleToolBody = z.input<typeof settleToolBody>

/** The answer to every write; some add to it. */
export interface Written {
  /** The 32-bit id of the one transaction that wrote everything: for `awaitTxId` of every collection. */
  txid: number
}

/** Answers of `livePollsBody`: those that were there first; the others are to be asked for again. */
export interface LivePollsAnswer {
  answers: {
    /** Of the poll in the request. */
    index: number
    status: number
    headers: Record<string, string>
    body: string
  }[]
}

/** A call that a browser executor holds now. */
export interface ClaimedToolCall {
  id: string
  generationId: string
  name: string
  args: unknown
  attempt: number
  timeoutMs: number | null
}

/** Answer of GET sessions/:sessionId/generations/:generationId. */
export interface GenerationStatusAnswer {
  id: string
  status: GenerationStatus
  attempt: number
  error: string | null
  cancelReason: string | null
  /** The assistant's message, once there is one. */
  content: string | null
}

/** RFC 9457, `application/problem+json`. */
export interface Problem {
  type: string
  title: string
  status: number
  /** An `AiDbErrorCode`, or 'UNAUTHENTICATED' | 'FORBIDDEN' | 'RATE_LIMITED' | 'TOO_LARGE' | 'UPSTREAM_FAILED' | 'INTERNAL'. */
  code: string
  /** What is wrong and the cure, for people. */
  detail: string
  field?: string
}

const part = encodeURIComponent

/** Paths under the mount point. A part may have any characters. */
export const paths = {
  sessions: () => '/sessions',
  session: (sessionId: string) => `/sessions/${part(sessionId)}`,
  /** GET; POST for a subset in the body. The list of sessions is the one shape outside of a session. */
  sessionsShape: () => '/shapes/sessions',
  shape: (sessionId: string, shape: string) => `/sessions/${part(sessionId)}/shapes/${part(shape)}`,
  /** POST: long polls of several shapes at once. */
  live: () => '/live',
  messages: (sessionId: string) => `/sessions/${part(sessionId)}/messages`,
  message: (sessionId: string, messageId: string) =>
    `/sessions/${part(sessionId)}/messages/${part(messageId)}`,
  generation: (sessionId: string, generationId: string) =>
    `/sessions/${part(sessionId)}/generations/${part(generationId)}`,
  /** GET: the live text, as the stream server answers; 404 STREAM_FAILED where there is none. */
  stream: (sessionId: string, generationId: string) =>
    `/sessions/${part(sessionId)}/generations/${part(generationId)}/stream`,
  cancel: (sessionId: string, generationId: string) =>
    `/sessions/${part(sessionId)}/generations/${part(generationId)}/cancel`,
  retry: (sessionId: string, generationId: string) =>
    `/sessions/${part(sessionId)}/generations/${part(generationId)}/retry`,
  approve: (sessionId: string, toolCallId: string) =>
    `/sessions/${part(sessionId)}/tool-calls/${part(toolCallId)}/approve`,
  deny: (sessionId: string, toolCallId: string) =>
    `/sessions/${part(sessionId)}/tool-calls/${part(toolCallId)}/deny`,
  claimTools: (sessionId: string) => `/sessions/${part(sessionId)}/tool-calls/claim`,
  renewTools: (sessionId: string) => `/sessions/${part(sessionId)}/tool-calls/renew`,
  settleTool: (sessionId: string, toolCallId: string) =>
    `/sessions/${part(sessionId)}/tool-calls/${part(toolCallId)}/settle`,
} as const
