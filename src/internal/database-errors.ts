/**
 * The seam where Postgres' failures become the library's codes. Nothing above reads a SQLSTATE.
 */
import { AiDbError } from '../errors.js'

interface PostgresFailure {
  code?: string
  message?: string
  hint?: string
  detail?: string
  constraint?: string
  constraint_name?: string
  column?: string
  column_name?: string
  errors?: unknown[]
}

/** What a CHECK of the contract tables guards, in a caller's words, and how to cure it. */
const checkCures: Readonly<Record<string, { field: string; cure: string }>> = {
  messages_content_check: {
    field: 'content',
    cure: 'Content must hold more than blanks and at most 1 MiB of UTF-8; store larger input elsewhere and send a reference.',
  },
  messages_role_check: { field: 'role', cure: "Use 'user', 'assistant' or 'system'." },
  messages_id_check: { field: 'id', cure: 'An id has 1 to 200 characters.' },
  messages_actor_id_check: { field: 'actorId', cure: 'An actor id has 1 to 200 characters.' },
  messages_target_agent_check: {
    field: 'targetAgent',
    cure: 'An agent name has 1 to 200 characters.',
  },
  sessions_owner_id_check: { field: 'ownerId', cure: 'An owner id has 1 to 200 characters.' },
  approvals_actor_id_check: { field: 'actorId', cure: 'An actor id has 1 to 200 characters.' },
  sessions_id_check: { field: 'id', cure: 'An id has 1 to 200 characters.' },
}

const unreachable = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  'EPIPE',
  'CONNECT_TIMEOUT',
  'CONNECTION_CLOSED',
  'CONNECTION_ENDED',
  'CONNECTION_DESTROYED',
  '57P01', // terminated by an administrator
  '57P02', // crash shutdown
  '57P03', // starting up, or shutting down
  '08000',
  '08003',
  '08006',
  '53300', // too many connections
])

/** Did the statement fail because the database was away? Then it may be tried again later. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof AiDbError && error.code === 'DATABASE_UNREACHABLE'
}

/** The transaction lost a race (deadlock, serialization) and may be run again as it is. */
export function isTransient(error: unknown): boolean {
  const code = failureOf(error).code
  return code === '40001' || code === '40P01'
}

/** Is it the violation of this unique index? */
export function isUniqueViolation(error: unknown, constraint: string): boolean {
  const failure = failureOf(error)
  return failure.code === '23505' && constraintOf(failure) === constraint
}

/** Any failure of a driver as an AiDbError; errors it does not know pass through unchanged. */
export function mapDatabaseError(error: unknown): Error {
  if (error instanceof AiDbError) return error
  const failure = failureOf(error)
  const code = failure.code ?? ''
  const told = failure.message ?? String(error)
  if (
    unreachable.has(code) ||
    /Connection terminated|Client has encountered a connection error/.test(told)
  ) {
    return new AiDbError(
      'DATABASE_UNREACHABLE',
      `The database could not be reached (${told}). Check the database URL and that Postgres is up.`,
      { field: 'db', cause: error },
    )
  }
  const mapped = mappers[code]?.(failure, told)
  if (mapped)
    return new AiDbError(mapped.code, mapped.message, { field: mapped.field, cause: error })
  return error instanceof Error ? error : new Error(told)
}

type Mapped = Pick<AiDbError, 'code' | 'message'> & { field?: string }
type Mapper = (failure: PostgresFailure, told: string) => Mapped

const wrongDatabase: Mapper = (_failure, told) => ({
  code: 'DATABASE_UNREACHABLE',
  field: 'db',
  message: `Postgres refused the connection (${told}). Check user, password and database name in the database URL.`,
})

const notMigrated: Mapper = (_failure, told) => ({
  code: 'NOT_MIGRATED',
  message: `The tables are missing or older than this library (${told}). Run \`npx electric-ai-db migrate\` or call migrate().`,
})

const notText: Mapper = (_failure, told) => ({
  code: 'INVALID_INPUT',
  message: `Postgres cannot store this text (${told}). Remove NUL bytes and invalid UTF-8 first.`,
})

/** What a function of `migrations/` raises itself: the fact, the cure as hint, the field in the caller's words as column. */
const raised =
  (code: Mapped['code']): Mapper =>
  (failure, told) => ({
    code,
    field: failure.column ?? failure.column_name,
    message: `${told}. ${failure.hint ?? ''}`.trim(),
  })

const mappers: Readonly<Record<string, Mapper>> = {
  AI001: raised('ILLEGAL_TRANSITION'),
  AI002: raised('NOT_APPROVED'),
  AI003: raised('STALE_APPROVAL'),
  AI004: raised('NOT_FOUND'),
  AI005: raised('INVALID_INPUT'),
  AI006: raised('UNKNOWN_SESSION'),
  AI007: raised('DUPLICATE_ID'),
  AI008: raised('CHECKPOINT_REGRESSED'),
  '23505': (failure, told) => ({
    code: 'DUPLICATE_ID',
    field: 'id',
    message: `A row with this id exists already (${failure.detail ?? told}). Send a new id, or treat it as sent.`,
  }),
  '23503': (failure, told) => ({
    code: 'UNKNOWN_SESSION',
    field: 'sessionId',
    message: `The row it refers to does not exist (${failure.detail ?? told}). Create the session first.`,
  }),
  '23514': (failure, told) => {
    const known = checkCures[constraintOf(failure) ?? '']
    return {
      code: 'INVALID_INPUT',
      field: known?.field,
      message: `${known ? `${known.field} is not acceptable` : told}. ${known?.cure ?? 'See the CHECK of that name in the schema.'}`,
    }
  },
  '42501': (_failure, told) => ({
    code: 'PERMISSION_DENIED',
    message: `The database role may not do this (${told}). Grant it usage on the schema and select, insert, update and delete on its tables; migrate() needs an owner.`,
  }),
  '42P01': notMigrated,
  '42703': notMigrated,
  '42883': notMigrated,
  '3F000': notMigrated,
  '28P01': wrongDatabase,
  '28000': wrongDatabase,
  '3D000': wrongDatabase,
  '22021': notText,
  '22P05': notText,
}

/** The Postgres failure inside: drivers throw it bare, Drizzle wraps it as `cause`, Node groups several. */
function failureOf(error: unknown): PostgresFailure {
  let inner: unknown = error
  for (let depth = 0; depth < 4 && typeof inner === 'object' && inner !== null; depth += 1) {
    const failure = inner as PostgresFailure & { cause?: unknown }
    if (failure.code !== undefined) return failure
    inner = failure.cause ?? failure.errors?.[0]
  }
  return typeof error === 'object' && error !== null ? error : {}
}

const constraintOf = (failure: PostgresFailure) => failure.constraint ?? failure.constraint_name
