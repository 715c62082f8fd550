/**
 * The state words of the contract tables and the moves between them.
 *
 * These tables are the typed half of a pair: `migrations/0001_transition_guards.sql` is the other, and
 * refuses an illegal move from any writer, psql included. `test/postgres/transitions.test.ts` compares
 * the two cell by cell. A missing cell does not compile. See docs/spec.md, "States".
 */

export type GenerationStatus =
  'pending' | 'generating' | 'waiting' | 'completed' | 'failed' | 'cancelled'

export type ToolCallStatus = 'pending' | 'executing' | 'completed' | 'failed' | 'cancelled'

/** Fibers share the tool call's words: a fiber is a call without a model behind it. */
export type FiberStatus = ToolCallStatus

/** Why a cancelled row was cancelled. */
export type CancelReason = 'by-user' | 'by-timeout' | 'by-error'

/** What a put-down generation waits for. */
export type WaitReason = 'tools' | 'approval' | 'timer'

type TransitionTable<Status extends string> = Readonly<
  Record<Status, Readonly<Record<Status, boolean>>>
>

/**
 * `generationTransitions[from][to]`: may the row move?
 *
 * - pending → generating: a worker's claim, and only with `attempt + 1`.
 * - pending → failed: recovery gave up on it. pending → cancelled: a person, or the session's end.
 * - generating → pending: released (error with retries left, shutdown) or recovered from a dead worker.
 * - generating → waiting: put down; nothing but tool calls, approvals or a timer can move it on.
 * - waiting → pending: the transaction that settled the last thing it waited for.
 * - terminal states have no way out: a retry is a new generation.
 */
export const generationTransitions: TransitionTable<GenerationStatus> = {
  pending: {
    pending: true,
    generating: true,
    waiting: false,
    completed: false,
    failed: true,
    cancelled: true,
  },
  generating: {
    pending: true,
    generating: true,
    waiting: true,
    completed: true,
    failed: true,
    cancelled: true,
  },
  waiting: {
    pending: true,
    generating: false,
    waiting: true,
    completed: false,
    failed: true,
    cancelled: true,
  },
  completed: {
    pending: false,
    generating: false,
    waiting: false,
    completed: true,
    failed: false,
    cancelled: false,
  },
  failed: {
    pending: false,
    generating: false,
    waiting: false,
    completed: false,
    failed: true,
    cancelled: false,
  },
  cancelled: {
    pending: false,
    generating: false,
    waiting: false,
    completed: false,
    failed: false,
    cancelled: true,
  },
}

/**
 * `toolCallTransitions[from][to]`, for fibers as well.
 *
 * - pending → executing: an executor's claim, and only with `attempt + 1`.
 * - pending → failed: nobody ran it in time. pending → cancelled: its generation was stopped.
 * - executing → pending: its executor died or put it down.
 */
export const toolCallTransitions: TransitionTable<ToolCallStatus> = {
  pending: { pending: true, executing: true, completed: false, failed: true, cancelled: true },
  executing: { pending: true, executing: true, completed: true, failed: true, cancelled: true },
  completed: { pending: false, executing: false, completed: true, failed: false, cancelled: false },
  failed: { pending: false, executing: false, completed: false, failed: true, cancelled: false },
  cancelled: { pending: false, executing: false, completed: false, failed: false, cancelled: true },
}

/** The statuses a row may be inserted with. */
export const initialGenerationStatuses: Readonly<Record<GenerationStatus, boolean>> = {
  pending: true,
  generating: false,
  waiting: false,
  completed: false,
  failed: false,
  cancelled: false,
}

/**
 * A tool call may be born `executing` (the worker that wrote the row runs it itself and spares a claim)
 * or `failed` (its tool is unknown or its arguments are malformed: nothing can run it).
 */
export const initialToolCallStatuses: Readonly<Record<ToolCallStatus, boolean>> = {
  pending: true,
  executing: true,
  completed: false,
  failed: true,
  cancelled: false,
}

const terminal = {
  generation: { completed: true, failed: true, cancelled: true } as Partial<
    Record<GenerationStatus, true>
  >,
  toolCall: { completed: true, failed: true, cancelled: true } as Partial<
    Record<ToolCallStatus, true>
  >,
}

/** Has the generation ended for good? */
export function isSettledGeneration(status: GenerationStatus): boolean {
  return terminal.generation[status] === true
}

/** Has the tool call ended for good? */
export function isSettledToolCall(status: ToolCallStatus): boolean {
  return terminal.toolCall[status] === true
}
