/**
 * The seam between a tool execution effect and what decides who runs a call. A synced row is a hint; with a
 * claim, any number of consumers may see it and one of them executes it.
 *
 * Ready-made: `postgresToolClaims()` (`src/claims/`), and for pages `handlerToolClaims()` (`src/client/`).
 * A host's own needs one atomic statement that moves `pending → executing`, and says whether it did.
 */

export type ToolClaimOutcome =
  { status: 'completed'; result: unknown } | { status: 'failed'; error: string }

/** A call that is ours now. */
export interface ToolClaim {
  /** The fence of this claim: 1, or more if an earlier execution did not report. */
  attempt: number
  /** Aborts when the claim is lost or its call cancelled: the execution is stopped and writes nothing. */
  signal?: AbortSignal
  /**
   * Stores how it went, where claiming and settling are one matter. The effect's callbacks are told afterwards.
   *
   * @throws FencedError when the call is no longer ours: it is dropped without a sound.
   */
  settle?(outcome: ToolClaimOutcome): Promise<void>
  /** Gives the call back unfinished (the effect is disposed): executing → pending. */
  release?(): Promise<void>
}

/**
 * @returns the claim; false when somebody else has the call, or it is not to be run (any more): a change of its
 *   row offers it again; 'later' when nothing may tell that it is free again: it is asked again by itself.
 */
export type ClaimToolCall<TRow = { id: string }> = (
  row: TRow,
) => Promise<ToolClaim | false | 'later'>
