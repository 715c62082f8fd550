/**
 * Pages of other origins. Off unless the host says which; with cookies only for origins that are named, because
 * a wildcard with credentials would hand every user's sessions to every site.
 */
import type { MiddlewareHandler } from 'hono'
import { cors as honoCors } from 'hono/cors'
import { AiDbError } from '../errors.js'
import { refuseUnknownOptions } from '../internal/options.js'

export interface CorsOptions {
  /** Origins (`https://app.example`), or '*' for any. */
  origins: '*' | readonly string[]
  /** Let browsers send cookies. Needs named origins. @default false */
  credentials?: boolean
  /** How long a browser may remember the preflight, in ms. @default 600000 */
  maxAgeMs?: number
}

/** @throws AiDbError INVALID_OPTION */
export function requireCors(cors: CorsOptions): void {
  refuseUnknownOptions('createHandler: cors', cors, ['origins', 'credentials', 'maxAgeMs'])
  const { origins, credentials } = cors
  if (origins === '*') {
    if (!credentials) return
    throw invalid("'*' cannot go with credentials. List the origins that may send cookies.")
  }
  const all = Array.isArray(origins) && origins.every((origin) => isOrigin(origin))
  if (!all) throw invalid("must be '*' or a list of origins such as 'https://app.example'.")
}

const isOrigin = (value: unknown) =>
  typeof value === 'string' && URL.canParse(value) && new URL(value).origin === value

const invalid = (problem: string) =>
  new AiDbError('INVALID_OPTION', `createHandler: cors.origins ${problem}`, {
    field: 'cors.origins',
  })

/** @param exposed Names of the answers' headers that clients read. */
export function corsFor(cors: CorsOptions, exposed: readonly string[]): MiddlewareHandler {
  const { origins, credentials = false, maxAgeMs = 600_000 } = cors
  return honoCors({
    origin: origins === '*' ? '*' : [...origins],
    credentials,
    maxAge: Math.floor(maxAgeMs / 1000),
    allowMethods: ['GET', 'HEAD', 'POST', 'PATCH', 'DELETE'],
    exposeHeaders: [...new Set(exposed)],
  })
}
