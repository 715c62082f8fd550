/**
 * The one error type of the library. Foreign failures (Postgres, HTTP, provider) are mapped to a
 * code at one seam each; a caller branches on `code`, a person reads `message`, which ends with the cure.
 */

/** Every code the library throws. Closed: a new failure gets a new word here, or fits one of these. */
export type AiDbErrorCode =
  /** A write carried an attempt that is no longer the row's: another worker owns it, or it is settled. */
  | 'FENCED'
  /** The database refused a status change that the transition tables do not list. */
  | 'ILLEGAL_TRANSITION'
  /** The database refused to let a tool call run without the approvals it needs. */
  | 'NOT_APPROVED'
  /** A vote on a tool call is bound to other arguments than the call has now. */
  | 'STALE_APPROVAL'
  /** A wake is stale, done, or held by another runner: nothing was run. */
  | 'WAKE_REJECTED'
  /** A checkpoint would go back behind one that was recorded. */
  | 'CHECKPOINT_REGRESSED'
  /** An argument is missing, malformed or too large; `field` names it. */
  | 'INVALID_INPUT'
  /** An option is unknown or out of range; `field` names it. */
  | 'INVALID_OPTION'
  /** A row with this id exists already. */
  | 'DUPLICATE_ID'
  /** No such session. */
  | 'UNKNOWN_SESSION'
  /** No such generation, message or tool call. */
  | 'NOT_FOUND'
  /** Workers are up and none of them serves this agent. */
  | 'UNKNOWN_AGENT'
  /** The database could not be reached, or went away mid-statement. */
  | 'DATABASE_UNREACHABLE'
  /** The database role may not do this. */
  | 'PERMISSION_DENIED'
  /** The tables are missing or older than this version of the library. */
  | 'NOT_MIGRATED'
  /** The database was migrated by a newer version of the library. */
  | 'DATABASE_TOO_NEW'
  /** A migration could not be applied. */
  | 'MIGRATION_FAILED'
  /** The stream server refused, lost or could not take an append. */
  | 'STREAM_FAILED'
  /** The model provider threw or yielded an error. */
  | 'PROVIDER_FAILED'
  /** Something took longer than its limit. */
  | 'TIMEOUT'
  /** The work was cancelled. */
  | 'CANCELLED'
  /** A tool threw, was unknown, or was called with bad arguments. */
  | 'TOOL_FAILED'
  /** The embedded development stack could not start. */
  | 'DEV_STACK'
  /** The handler could not be reached from a browser, or did not answer like one. */
  | 'SERVER_UNREACHABLE'
  /** Too many writes wait for the network. */
  | 'OUTBOX_FULL'
  /** The handler does not know who asks. */
  | 'UNAUTHENTICATED'
  /** The handler knows who asks, and says no. */
  | 'FORBIDDEN'
  /** Asked too often. */
  | 'RATE_LIMITED'
  /** A request's body is larger than the handler takes. */
  | 'TOO_LARGE'
  /** What the handler asks itself (sync server, stream server) failed. */
  | 'UPSTREAM_FAILED'
  /** The handler failed; its log says why. */
  | 'INTERNAL'

export interface AiDbErrorDetails {
  /** The argument, option or column at fault, as the caller wrote it. */
  field?: string
  cause?: unknown
}

export class AiDbError extends Error {
  override readonly name: string = 'AiDbError'
  readonly code: AiDbErrorCode
  /** The argument, option or column at fault, if there is one. */
  readonly field: string | undefined

  constructor(code: AiDbErrorCode, message: string, details: AiDbErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.code = code
    this.field = details.field
  }
}

/** Thrown where a stale attempt tried to write: catch it to drop the run without a sound. */
export class FencedError extends AiDbError {
  override readonly name = 'FencedError'

  constructor(what: string, attempt: number) {
    super(
      'FENCED',
      `${what} is no longer held at attempt ${attempt}: it was claimed again or settled elsewhere. ` +
        'Drop this run; nothing it writes can land.',
    )
  }
}

/** Any thrown value as an Error, its message kept. */
export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown))
}
