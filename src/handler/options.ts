/** What a host sets when it mounts the handler, checked at once: a wrong option is an error at start, not at the first request. */
import type { ElectricOptions } from '../electric/proxy.js'
import { AiDbError } from '../errors.js'
import { toDatabase, type Database, type DrizzleDatabase } from '../internal/database.js'
import { refuseUnknownOptions, requireNumber } from '../internal/options.js'
import type { Action, Authorize, Grant } from './authorize.js'
import { requireCors, type CorsOptions } from './cors.js'

export interface HandlerOptions {
  /** A Drizzle database over `postgres` or `pg`. */
  db: DrizzleDatabase
  /** The Postgres schema of the tables. @default 'ai_db' */
  schema?: string
  /** Where Electric is, from here. */
  electric: ElectricOptions
  /** Where the workers' stream server is, from here. Absent: live text comes as `chunks` rows. */
  streams?: { url: string | URL; headers?: Readonly<Record<string, string>> }
  /** Decides about every request. There is no default: nothing works without it. */
  authorize: Authorize
  /** The path the handler is mounted at, where the framework leaves it in the URL: '/api/ai'. @default '' */
  basePath?: string
  /** Whom messages are for that name no agent. @default 'assistant' */
  defaultAgent?: string
  /** Pages of other origins that may use it. @default none */
  cors?: CorsOptions
  /** Largest request body, in bytes. @default 1310720, a message of 1 MiB and a quarter for its JSON */
  maxBodyBytes?: number
  /** Asked after `authorize`; an answer refuses the request with 429. @default no limit */
  rateLimit?: RateLimit
  /** Told of every 5xx, and of what broke behind it. @default console.error */
  onError?: (error: unknown, request: Request) => void
  /** For the requests to Electric and the stream server. @default the global fetch */
  fetch?: typeof fetch
}

/** @returns undefined lets it pass; else when to try again, in ms. */
export type RateLimit = (
  request: Request,
  action: Action,
  grant: Required<Grant>,
) => { retryAfterMs: number } | undefined | Promise<{ retryAfterMs: number } | undefined>

/** The options as routes use them. */
export interface Host {
  db: DrizzleDatabase
  /** The same database, for the library's own statements. */
  database: Database
  schema: string
  electric: ElectricOptions
  streams: HandlerOptions['streams']
  authorize: Authorize
  basePath: string
  defaultAgent: string
  cors: CorsOptions | undefined
  maxBodyBytes: number
  rateLimit: RateLimit | undefined
  onError: (error: unknown, request: Request) => void
  fetch: typeof fetch
}

const WHAT = 'createHandler'
const MAX_BODY_BYTES = 1_310_720

const known = [
  ...['db', 'schema', 'electric', 'streams', 'authorize', 'basePath', 'defaultAgent', 'cors'],
  ...['maxBodyBytes', 'rateLimit', 'onError', 'fetch'],
]

/** @throws AiDbError INVALID_OPTION, naming the field. */
export function resolveHandlerOptions(options: HandlerOptions): Host {
  refuseUnknownOptions(WHAT, options, known)
  const { schema = 'ai_db', electric, streams, maxBodyBytes = MAX_BODY_BYTES } = options
  requireFunction('authorize', options.authorize, true)
  requireFunction('rateLimit', options.rateLimit)
  requireFunction('onError', options.onError)
  requireFunction('fetch', options.fetch)
  requireName('schema', schema)
  requireName('defaultAgent', options.defaultAgent ?? 'assistant')
  requireElectric(electric)
  if (streams !== undefined) {
    refuseUnknownOptions(`${WHAT}: streams`, streams, ['url', 'headers'])
    requireUrl('streams.url', streams.url)
  }
  requireNumber(WHAT, 'maxBodyBytes', maxBodyBytes, 1)
  if (options.cors) requireCors(options.cors)
  return {
    db: options.db,
    database: databaseOf(options.db, schema),
    schema,
    electric,
    streams,
    authorize: options.authorize,
    basePath: resolveBasePath(options.basePath ?? ''),
    defaultAgent: options.defaultAgent ?? 'assistant',
    cors: options.cors,
    maxBodyBytes,
    rateLimit: options.rateLimit,
    onError: options.onError ?? logged,
    fetch: options.fetch ?? ((...args) => fetch(...args)),
  }
}

// eslint-disable-next-line no-console -- a 500 that nobody hears of is worse than a line on the console
const logged = (error: unknown) => console.error(error)

function databaseOf(db: DrizzleDatabase, schema: string): Database {
  try {
    return toDatabase(db, { schema })
  } catch (error) {
    throw new AiDbError('INVALID_OPTION', `${WHAT}: ${(error as Error).message}`, { field: 'db' })
  }
}

function requireElectric(electric: ElectricOptions | undefined): void {
  if (typeof electric !== 'object') throw invalid('electric', 'must be { url, secret? }')
  refuseUnknownOptions(`${WHAT}: electric`, electric, ['url', 'secret', 'sourceId'])
  requireUrl('electric.url', electric.url)
  if (electric.secret !== undefined) requireName('electric.secret', electric.secret)
  if (electric.sourceId !== undefined) requireName('electric.sourceId', electric.sourceId)
}

/** Without the value: a URL may hold a password. */
function requireUrl(field: string, value: unknown): void {
  const url = URL.canParse(String(value)) ? new URL(String(value)) : undefined
  if (url?.protocol === 'http:' || url?.protocol === 'https:') {
    if (url.username === '' && url.password === '') return
    throw invalid(field, 'must hold no user and password; fetch refuses such a URL')
  }
  throw invalid(field, "must be an absolute URL such as 'http://localhost:3000'")
}

function requireName(field: string, value: unknown): void {
  if (typeof value === 'string' && value !== '') return
  throw invalid(field, 'must be a string that is not empty')
}

function requireFunction(field: string, value: unknown, required = false): void {
  if (typeof value === 'function' || (value === undefined && !required)) return
  const cure = required ? ': it decides about every request, and nothing works without it' : ''
  throw invalid(field, `must be a function${cure}`)
}

function resolveBasePath(basePath: unknown): string {
  if (typeof basePath !== 'string' || !/^(\/[^\s?#]+)?\/?$/.test(basePath)) {
    throw invalid('basePath', "must be a path such as '/api/ai'")
  }
  return basePath.replace(/\/+$/, '')
}

const invalid = (field: string, problem: string) =>
  new AiDbError('INVALID_OPTION', `${WHAT}: ${field} ${problem}.`, { field })
