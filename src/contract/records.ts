/**
 * The rows as clients see them: one Standard Schema per synced table, in camel case, instants as `Date`.
 *
 * What is listed here is what a client gets, no more: these objects are the column allow-list of the shapes
 * (`src/electric/shapes.ts`), and the types of the browser's collections. Columns are documented
 * in `src/schema/`. `test/postgres/records.test.ts` holds names, types and nullability to the tables.
 */
import { z } from 'zod'
import type { CancelReason, GenerationStatus, ToolCallStatus, WaitReason } from './status.js'

const json = z.record(z.string(), z.unknown())
const cancelReason = z.enum(['by-user', 'by-timeout', 'by-error'] satisfies CancelReason[])

export const sessionRecord = z.object({
  id: z.string(),
  title: z.string().nullable(),
  ownerId: z.string().nullable(),
  metadata: json,
  createdAt: z.date(),
  updatedAt: z.date(),
})

export const messagePart = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text'), step: z.number().int(), text: z.string() }),
  z.object({ type: z.literal('tool-call'), step: z.number().int(), id: z.string() }),
])

export const messageRecord = z.object({
  id: z.string(),
  sessionId: z.string(),
  /** Order of the session. An optimistic message has a number above every real one until its row arrives. */
  seq: z.number(),
  role: z.enum(['user', 'assistant', 'system']),
  actorId: z.string(),
  targetAgent: z.string(),
  content: z.string(),
  parts: z.array(messagePart).nullable(),
  processed: z.boolean(),
  processedBy: z.string().nullable(),
  generationId: z.string().nullable(),
  requestId: z.string().nullable(),
  inReplyTo: z.string().nullable(),
  supersededBy: z.string().nullable(),
  metadata: json,
  createdAt: z.date(),
  updatedAt: z.date(),
})

export const generationRecord = z.object({
  id: z.string(),
  sessionId: z.string(),
  agentName: z.string(),
  status: z.enum([
    'pending',
    'generating',
    'waiting',
    'completed',
    'failed',
    'cancelled',
  ] satisfies GenerationStatus[]),
  cancelReason: cancelReason.nullable(),
  waitReason: z.enum(['tools', 'approval', 'timer'] satisfies WaitReason[]).nullable(),
  error: z.string().nullable(),
  attempt: z.number().int(),
  workerId: z.string().nullable(),
  inbox: z.array(z.string()),
  step: z.number().int(),
  model: z.string().nullable(),
  finishReason: z.string().nullable(),
  inputTokens: z.number().int(),
  outputTokens: z.number().int(),
  metadata: json,
  createdAt: z.date(),
  updatedAt: z.date(),
  startedAt: z.date().nullable(),
  completedAt: z.date().nullable(),
})

export const toolCallRecord = z.object({
  id: z.string(),
  generationId: z.string(),
  sessionId: z.string(),
  step: z.number().int(),
  index: z.number().int(),
  providerCallId: z.string(),
  name: z.string(),
  args: z.unknown(),
  argsHash: z.string(),
  status: z.enum([
    'pending',
    'executing',
    'completed',
    'failed',
    'cancelled',
  ] satisfies ToolCallStatus[]),
  cancelReason: cancelReason.nullable(),
  result: z.unknown(),
  error: z.string().nullable(),
  expiresAt: z.date().nullable(),
  approvalsRequired: z.number().int(),
  approvedAt: z.date().nullable(),
  attempt: z.number().int(),
  workerId: z.string().nullable(),
  metadata: json,
  createdAt: z.date(),
  updatedAt: z.date(),
  startedAt: z.date().nullable(),
  completedAt: z.date().nullable(),
})

export const chunkRecord = z.object({
  id: z.string(),
  generationId: z.string(),
  sessionId: z.string(),
  index: z.number().int(),
  attempt: z.number().int(),
  step: z.number().int(),
  type: z.string(),
  content: z.string(),
  isFinal: z.boolean(),
  createdAt: z.date(),
})

export const approvalRecord = z.object({
  id: z.string(),
  toolCallId: z.string(),
  sessionId: z.string(),
  action: z.enum(['requested', 'approved', 'denied', 'expired']),
  actorId: z.string(),
  argsHash: z.string(),
  reason: z.string().nullable(),
  createdAt: z.date(),
})

export type SessionRecord = z.output<typeof sessionRecord>
export type MessageRecord = z.output<typeof messageRecord>
export type GenerationRecord = z.output<typeof generationRecord>
export type ToolCallRecord = z.output<typeof toolCallRecord>
export type ChunkRecord = z.output<typeof chunkRecord>
export type ApprovalRecord = z.output<typeof approvalRecord>

/** Every shape there is, by the name it has in a URL, and the record its rows are. */
export const records = {
  sessions: sessionRecord,
  messages: messageRecord,
  generations: generationRecord,
  'tool-calls': toolCallRecord,
  chunks: chunkRecord,
  approvals: approvalRecord,
} as const

export type ShapeName = keyof typeof records
export const shapeNames = Object.keys(records) as ShapeName[]
