/**
 * The host's Drizzle database as the library uses it: prepared statements over a pool, and dedicated
 * sessions for LISTEN and advisory locks. `postgres-js` and `node-postgres` are accepted.
 *
 * Hot statements go straight to the driver under Drizzle (`db.$client`), because Drizzle's own `execute`
 * prepares nothing. Inside a host's transaction (`tx`) they go through `tx.execute`, so that they commit
 * with it. A host that turned prepared statements off (a transaction pooler) keeps that.
 */
import { sql, type SQL } from 'drizzle-orm'
import { AiDbError } from '../errors.js'
import { delay, jittered } from './abort.js'
import { isTransient, mapDatabaseError } from './database-errors.js'
import { openNodePostgresSession, openPostgresJsSession } from './session.js'
import type {
  DatabaseSession,
  NodePostgresClient,
  PostgresJsClient,
  SessionOptions,
} from './session.js'
import { tableNames } from './statement.js'
import type { Param, Statement, TableNames } from './statement.js'

/** Anything with Drizzle's `execute`: a `postgres-js` or `node-postgres` database, or a transaction of one. */
export interface DrizzleDatabase {
  execute(query: SQL): PromiseLike<unknown>
}

/** Runs statements: a pool, or one transaction. */
export interface Queryable {
  readonly tables: TableNames
  /** @throws AiDbError with the failure's code; see src/internal/database-errors.ts. */
  query<Params extends readonly Param[], Row>(
    statement: Statement<Params, Row>,
    params: Params,
  ): Promise<Row[]>
}

export interface Database extends Queryable {
  /** The Postgres schema of the tables. */
  readonly schemaName: string
  /** Statements sent so far: what round-trip budgets are measured with. */
  readonly roundTrips: number
  /** Opens a connection of its own, for LISTEN and session-level locks. */
  openSession(options: SessionOptions): Promise<DatabaseSession>
}

export interface DatabaseOptions {
  /** The Postgres schema of the tables. @default 'ai_db' */
  schema?: string
}

type Send = (name: string, text: string, params: readonly Param[]) => Promise<unknown[]>

/** How often a statement that lost a race (deadlock, serialization) is run again. */
const TRANSIENT_RETRIES = 4
/**
 * Longer than any of the library's statements takes. One that waits for a host's lock for longer is given up, which
 * is safe under the fence, but a model turn whose cutover it was is asked again.
 */
const ANSWER_MS = 10_000

/**
 * Wraps a host's Drizzle database.
 *
 * @throws AiDbError INVALID_INPUT when `db` is neither a `postgres-js` nor a `node-postgres` Drizzle database.
 */
export function toDatabase(db: DrizzleDatabase, options: DatabaseOptions = {}): Database {
  const schemaName = options.schema ?? 'ai_db'
  const tables = tableNames(schemaName)
  const driver = driverOf(db)
  let roundTrips = 0
  return {
    schemaName,
    tables,
    get roundTrips() {
      return roundTrips
    },
    async query<Params extends readonly Param[], Row>(
      statement: Statement<Params, Row>,
      params: Params,
    ) {
      const text = textOf(statement, tables)
      for (let tries = 0; ; tries += 1) {
        roundTrips += 1
        try {
          const answer = driver.send(`${schemaName}_${statement.name}`, text, params)
          return (await answered(answer, statement.name)) as Row[]
        } catch (error) {
          // Each statement is a transaction of its own, so the loser of a race may simply run again.
          if (!isTransient(error) || tries >= TRANSIENT_RETRIES) throw mapDatabaseError(error)
          await delay(jittered(5 * 2 ** tries))
        }
      }
    },
    openSession: (sessionOptions) => driver.openSession(sessionOptions),
  }
}

/** The host's database or open transaction, for statements that must commit with the host's own. */
export function toQueryable(db: DrizzleDatabase, options: DatabaseOptions = {}): Queryable {
  if (clientOf(db)) return toDatabase(db, options)
  if (typeof (db as DrizzleDatabase | null)?.execute !== 'function') throw notADatabase()
  const tables = tableNames(options.schema ?? 'ai_db')
  return {
    tables,
    async query<Params extends readonly Param[], Row>(
      statement: Statement<Params, Row>,
      params: Params,
    ) {
      try {
        const result = await db.execute(bind(textOf(statement, tables), params))
        return (Array.isArray(result) ? result : (result as { rows: unknown[] }).rows) as Row[]
      } catch (error) {
        throw mapDatabaseError(error)
      }
    },
  }
}

interface Driver {
  send: Send
  openSession(options: SessionOptions): Promise<DatabaseSession>
}

function driverOf(db: DrizzleDatabase): Driver {
  const client = clientOf(db)
  if (isPostgresJs(client)) {
    const prepare = client.options.prepare !== false
    return {
      send: (_name, text, params) => client.unsafe(text, [...params], { prepare }),
      openSession: (options) => openPostgresJsSession(client, options),
    }
  }
  if (isNodePostgres(client)) {
    return {
      send: async (name, text, params) =>
        (await client.query({ name, text, values: [...params] })).rows,
      openSession: (options) => openNodePostgresSession(client, options),
    }
  }
  throw notADatabase()
}

const clientOf = (db: DrizzleDatabase): unknown => (db as { $client?: unknown } | null)?.$client

function isPostgresJs(client: unknown): client is PostgresJsClient {
  return typeof client === 'function' && 'unsafe' in client && 'options' in client
}

function isNodePostgres(client: unknown): client is NodePostgresClient {
  return typeof client === 'object' && client !== null && 'query' in client && 'connect' in client
}

const notADatabase = () =>
  new AiDbError(
    'INVALID_INPUT',
    "db must be a Drizzle database of 'drizzle-orm/postgres-js' or 'drizzle-orm/node-postgres'. Pass what drizzle(...) returned.",
    { field: 'db' },
  )

/**
 * The answer, or an error when it does not come: a driver may lose a query together with its connection, and
 * whoever waits for it would hold its work for ever. What the statement did is then unknown, as after any
 * broken connection.
 */
async function answered<T>(answer: Promise<T>, name: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const silence = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(unanswered(name)), ANSWER_MS)
  })
  try {
    return await Promise.race([answer, silence])
  } finally {
    clearTimeout(timer)
  }
}

const unanswered = (name: string) =>
  new AiDbError(
    'DATABASE_UNREACHABLE',
    `${name} had no answer for ${ANSWER_MS} ms. Look for a lock it waits for, or a connection that hangs.`,
    { field: 'db' },
  )

const texts = new WeakMap<object, Map<string, string>>()

/** A statement's text for one schema, built once. */
function textOf(
  statement: { name: string; text(tables: TableNames): string },
  tables: TableNames,
): string {
  const bySchema = texts.get(statement) ?? new Map<string, string>()
  texts.set(statement, bySchema)
  const known = bySchema.get(tables.schema)
  if (known !== undefined) return known
  const text = statement.text(tables)
  bySchema.set(tables.schema, text)
  return text
}

/** `$n` text and its parameters as a Drizzle query; a parameter used twice is sent twice. */
function bind(text: string, params: readonly Param[]): SQL {
  const parts = text.split(/\$(\d+)/)
  const chunks = parts.map((part, place) =>
    place % 2 === 0 ? sql.raw(part) : sql`${sql.param(params[Number(part) - 1])}`,
  )
  return sql.join(chunks)
}
