/**
 * The one way this folder fails: a `DEV_STACK` error whose last sentence is the cure. The way out
 * that always exists, a Postgres of one's own, is a constant so that every message words it alike.
 */
import { AiDbError } from '../errors.js'

/** The cure where the embedded Postgres itself cannot run on this machine. */
export const USE_YOUR_OWN_POSTGRES =
  'set DATABASE_URL to a Postgres of your own that runs with wal_level=logical'

export function devStackError(message: string, cause?: unknown): AiDbError {
  return new AiDbError('DEV_STACK', message, { cause })
}

/** The `code` of a Node system error ('EADDRINUSE', 'ENOENT', …), if it has one. */
export function systemCode(thrown: unknown): string | undefined {
  const code = (thrown as { code?: unknown } | undefined)?.code
  return typeof code === 'string' ? code : undefined
}
