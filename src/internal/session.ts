/**
 * A connection of one's own: LISTEN, and advisory locks that live exactly as long as the connection.
 * When the process is killed the kernel closes the socket, Postgres ends the backend, and the locks go.
 *
 * Not a pooled connection, and not behind a transaction pooler: there LISTEN and session locks do not
 * hold (the worker finds that out when it starts; see src/runner/doorbell.ts).
 */
import type { ClientConfig } from 'pg'
import { AiDbError, toError } from '../errors.js'
import { mapDatabaseError } from './database-errors.js'
import { quoteIdentifier, type Param } from './statement.js'

export interface SessionOptions {
  /** A channel to LISTEN on. */
  channel?: string
  onNotify?: (payload: string) => void
  /** The connection ended, by whatever cause but `close()`. Called once. */
  onClose?: (error: Error) => void
}

export interface DatabaseSession {
  query<Row>(text: string, params?: readonly Param[]): Promise<Row[]>
  /** Ends the connection, even while a statement waits on it. */
  close(): Promise<void>
}

/** What is used of a `postgres` client. */
export interface PostgresJsClient {
  (...args: never[]): unknown
  options: object & { prepare?: boolean }
  unsafe(text: string, params: Param[], options: { prepare: boolean }): Promise<unknown[]>
}

/** What is used of a `pg` Pool or Client. */
export interface NodePostgresClient {
  query(config: { name?: string; text: string; values: Param[] }): Promise<{ rows: unknown[] }>
  connect: unknown
  options?: ClientConfig
  Client?: new (config: ClientConfig) => NodePostgresConnection
  connectionParameters?: ClientConfig
}

interface NodePostgresConnection extends NodePostgresClient {
  connect(): Promise<void>
  end(): Promise<void>
  on(event: 'notification', listener: (message: { payload?: string }) => void): void
  on(event: 'error' | 'end', listener: (error?: Error) => void): void
}

const listen = (channel: string) => `listen ${quoteIdentifier(channel)}`

const lost = (cause?: unknown) =>
  new AiDbError(
    'DATABASE_UNREACHABLE',
    'A database connection of the worker ended. It reconnects by itself; check Postgres if this repeats.',
    { field: 'db', cause },
  )

/** Tells `onClose` once, and never after `close()`. */
function closeOnce(onClose: SessionOptions['onClose']) {
  let over = false
  return {
    expected: () => (over = true),
    happened: (error?: unknown) => {
      if (over) return
      over = true
      onClose?.(lost(error))
    },
  }
}

export async function openPostgresJsSession(
  client: PostgresJsClient,
  options: SessionOptions,
): Promise<DatabaseSession> {
  const { default: postgres } = await import('postgres')
  const close = closeOnce(options.onClose)
  // Parsed options are taken as they are: the same trick postgres.js itself plays for sql.listen().
  const own = postgres({
    ...client.options,
    max: 1,
    idle_timeout: null,
    max_lifetime: null,
    fetch_types: false,
    onclose: () => close.happened(),
    onnotify: (_channel: string, payload: string) => options.onNotify?.(payload),
  } as never)
  try {
    await own.unsafe(options.channel === undefined ? 'select 1' : listen(options.channel))
  } catch (error) {
    close.expected()
    await own.end({ timeout: 0 })
    throw mapDatabaseError(error)
  }
  return {
    query: async <Row>(text: string, params: readonly Param[] = []) => {
      try {
        return (await own.unsafe(text, [...params])) as unknown as Row[]
      } catch (error) {
        throw mapDatabaseError(error)
      }
    },
    close: async () => {
      close.expected()
      await own.end({ timeout: 0 })
    },
  }
}

export async function openNodePostgresSession(
  client: NodePostgresClient,
  options: SessionOptions,
): Promise<DatabaseSession> {
  const close = closeOnce(options.onClose)
  const own = nodePostgresConnection(client)
  own.on('error', (error) => close.happened(error))
  own.on('end', () => close.happened())
  own.on('notification', (message) => options.onNotify?.(message.payload ?? ''))
  const query = async <Row>(text: string, params: readonly Param[] = []) => {
    try {
      return (await own.query({ text, values: [...params] })).rows as Row[]
    } catch (error) {
      throw mapDatabaseError(error)
    }
  }
  try {
    await own.connect()
    if (options.channel !== undefined) await query(listen(options.channel))
  } catch (error) {
    close.expected()
    await own.end().catch(() => undefined)
    throw mapDatabaseError(error)
  }
  return {
    query,
    close: async () => {
      close.expected()
      destroySocket(own)
      await own.end().catch(() => undefined)
    },
  }
}

/** A new connection with the settings of the host's pool or client. */
function nodePostgresConnection(client: NodePostgresClient): NodePostgresConnection {
  if (client.Client && client.options) return new client.Client(client.options)
  const { host, port, user, password, database, ssl } = client.connectionParameters ?? {}
  const Client = client.constructor as new (config: ClientConfig) => NodePostgresConnection
  try {
    return new Client({ host, port, user, password, database, ssl })
  } catch (error) {
    throw mapDatabaseError(toError(error))
  }
}

/** `end()` alone would wait for a statement that is blocked on a lock. */
function destroySocket(connection: unknown): void {
  const inner = (connection as { connection?: { stream?: { destroy(): void } } }).connection
  inner?.stream?.destroy()
}
