/**
 * The parts of an assistant's message for TanStack AI: texts, tool calls and their results, of live text
 * and of rows, which have the last word. And the interrupt that asks a person about a call.
 *
 * A part keeps its place and its id from the first character to the row, so a message is built by
 * appending: a step's results come behind all of its calls.
 */
import type { Interrupt, MessagePart, ToolCallPart, ToolResultPart } from '@tanstack/ai/client'
import type { ApprovalRecord, ToolCallRecord } from '../contract/records.js'
import { isSettledToolCall } from '../contract/status.js'
import type { TranscriptToolCall } from '../streams/transcript.js'

export type Votes = ReadonlyMap<string, boolean>

export interface ChatStep {
  readonly text: string
  /** As the live text has them. */
  readonly calls: readonly TranscriptToolCall[]
  /** Nothing will be added to it. */
  readonly ended: boolean
}

export function partsOf(
  steps: readonly ChatStep[],
  rows: readonly ToolCallRecord[],
  votes: Votes,
): MessagePart[] {
  const parts: MessagePart[] = []
  const last = Math.max(steps.length, ...rows.map((row) => row.step + 1))
  for (let step = 0; step < last; step += 1) {
    pushText(parts, steps[step]?.text ?? '')
    const calls = callsOf(steps[step], rows, step)
    parts.push(...calls.map((call) => callPart(call, votes)))
    for (const call of calls) {
      const result = resultPart(call)
      if (result) parts.push(result)
    }
  }
  return parts
}

/** Two texts with nothing between them are one part: TanStack AI would write the second over the first. */
function pushText(parts: MessagePart[], text: string): void {
  if (text === '') return
  const before = parts.at(-1)
  if (before?.type === 'text') before.content += `\n\n${text}`
  else parts.push({ type: 'text', content: text })
}

/** A call as it is known: streamed, a row, or both. */
interface KnownCall {
  live?: TranscriptToolCall
  row?: ToolCallRecord
}

/** Rows come before the last words of their step, which belong before them; a question is not held back. */
function callsOf(
  shown: ChatStep | undefined,
  rows: readonly ToolCallRecord[],
  step: number,
): KnownCall[] {
  const live = shown?.calls ?? []
  const ofStep = rows.filter((row) => row.step === step).sort((a, b) => a.index - b.index)
  const known = live.map((call): KnownCall => {
    const row = ofStep.find((one) => one.providerCallId === call.id)
    return row ? { live: call, row } : { live: call }
  })
  const unheard = ofStep
    .filter((row) => !live.some((call) => call.id === row.providerCallId))
    .filter((row) => shown?.ended || awaitsVote(row))
  return [...known, ...unheard.map((row) => ({ row }))]
}

function callPart({ live, row }: KnownCall, votes: Votes): ToolCallPart {
  const args = live?.args || (row ? JSON.stringify(row.args) : '')
  const outcome = outcomeOf({ ...(live && { live }), ...(row && { row }) })
  const written = row !== undefined || live?.state !== 'streaming'
  const approval = row && approvalOf(row, votes)
  const input = written ? { input: row ? row.args : parsed(args) } : {}
  return {
    type: 'tool-call',
    id: row?.id ?? live!.id,
    name: row?.name ?? live!.name,
    arguments: args,
    ...input,
    state: outcome?.state ?? approval?.state ?? (written ? 'input-complete' : 'input-streaming'),
    ...(approval && { approval: approval.approval }),
    ...(outcome && { output: outcome.output }),
  }
}

function approvalOf(row: ToolCallRecord, votes: Votes) {
  if (row.approvalsRequired === 0) return undefined
  const vote = votes.get(row.id)
  const approved = vote ?? (row.approvedAt !== null ? true : undefined)
  return {
    approval: {
      id: interruptIdOf(row.id),
      needsApproval: true,
      ...(approved === undefined ? {} : { approved }),
    },
    state:
      approved === undefined ? ('approval-requested' as const) : ('approval-responded' as const),
  }
}

interface Outcome {
  state: 'complete' | 'error'
  output: unknown
}

function outcomeOf({ live, row }: KnownCall): Outcome | undefined {
  const known = row && isSettledToolCall(row.status) ? row : live
  if (!known) return undefined
  const status = 'status' in known ? known.status : known.state
  if (status === 'completed') return { state: 'complete', output: known.result ?? null }
  if (status === 'failed') return { state: 'error', output: { error: known.error ?? 'failed' } }
  if (status === 'cancelled') return { state: 'error', output: { error: 'cancelled' } }
  return undefined
}

function resultPart(call: KnownCall): ToolResultPart | undefined {
  const outcome = outcomeOf(call)
  if (!outcome) return undefined
  const { state, output } = outcome
  const error = state === 'error' ? (output as { error: string }).error : undefined
  return {
    type: 'tool-result',
    toolCallId: call.row?.id ?? call.live!.id,
    content: typeof output === 'string' ? output : JSON.stringify(output),
    state,
    ...(error === undefined ? {} : { error }),
  }
}

function parsed(args: string): unknown {
  try {
    return JSON.parse(args)
  } catch {
    return undefined
  }
}

const INTERRUPT = 'approval_'

export function interruptIdOf(toolCallId: string): string {
  return INTERRUPT + toolCallId
}

/** @returns undefined for an interrupt that is none of ours. */
export function toolCallOfInterrupt(interruptId: string): string | undefined {
  return interruptId.startsWith(INTERRUPT) ? interruptId.slice(INTERRUPT.length) : undefined
}

export function awaitsVote(call: ToolCallRecord): boolean {
  return call.status === 'pending' && call.approvalsRequired > 0 && call.approvedAt === null
}

/** Does a call need the votes of more people than have voted? */
export function lacksVotes(call: ToolCallRecord, approvals: readonly ApprovalRecord[]): boolean {
  const votes = approvals.filter(
    ({ toolCallId, argsHash }) => toolCallId === call.id && argsHash === call.argsHash,
  )
  if (votes.some(({ action }) => action === 'denied')) return false
  const approved = votes.filter(({ action }) => action === 'approved')
  return new Set(approved.map(({ actorId }) => actorId)).size < call.approvalsRequired
}

/** Without a binding to the tool's schemas, which a browser need not have: `addToolApprovalResponse` takes it. */
export function interruptOf(call: ToolCallRecord): Interrupt {
  const { id, name, args, argsHash, expiresAt } = call
  return {
    id: interruptIdOf(id),
    reason: 'approval_required',
    message: `${name} needs approval.`,
    toolCallId: id,
    metadata: { kind: 'approval', toolName: name, input: args, argsHash },
    ...(expiresAt && { expiresAt: expiresAt.toISOString() }),
  }
}
