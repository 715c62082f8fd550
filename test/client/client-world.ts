/** Everything a browser session stands on, for one file: Postgres, sync server, handler over HTTP, and gates to shut. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { afterAll, inject, onTestFinished } from 'vitest'
import { openSession, type ChatSession, type SessionOptions } from '../../src/client.js'
import { createHandler } from '../../src/handler/create-handler.js'
import { createSession } from '../../src/sessions/create-session.js'
import { createSyncedDatabase, type SyncedDatabase } from '../support/synced-database.js'
import { pollUntil } from '../support/poll-until.js'
import { createGate, type Gate } from './gate.js'

export interface ClientWorld {
  database: SyncedDatabase
  /** Between sessions and handler. */
  gate: Gate
  /** Between handler and sync server. */
  sync: Gate
  /** What went wrong in the handler. */
  errors: unknown[]
  /** A new session's id. */
  newSession(): Promise<string>
  /** A tab: ends with the test. */
  openTab(sessionId: string, options?: Partial<SessionOptions>): ChatSession
}

/**
 * Call it in `beforeAll`.
 *
 * @param options.streams false: no stream server, live text comes as chunk rows.
 */
export async function createClientWorld(
  options: { streams?: boolean; longPollMs?: number } = {},
): Promise<ClientWorld> {
  const { streams = true, ...sync } = options
  const database = await createSyncedDatabase(sync)
  const syncGate = await createGate(database.electricUrl)
  const errors: unknown[] = []
  const handler = createHandler({
    db: database.db,
    schema: database.schema,
    electric: {
      url: syncGate.url,
      ...(database.electricSecret !== undefined && { secret: database.electricSecret }),
    },
    ...(streams && { streams: { url: inject('streamsUrl') } }),
    basePath: '/ai',
    authorize: (request, { verb }) => {
      const actor = request.headers.get('x-actor') ?? 'user'
      // Guests were given the link of one session.
      return actor === 'guest' && verb === 'list-sessions' ? { deny: 'forbidden' } : { actor }
    },
    onError: (error) => errors.push(error),
  })
  const server = createServer(
    (request, response) => void getRequestListener(handler)(request, response),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterAll(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  const gate = await createGate(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  return {
    database,
    gate,
    sync: syncGate,
    errors,
    newSession: async () => (await createSession(database.db, {}, { schema: database.schema })).id,
    openTab(sessionId, more = {}) {
      const session = openSession({ url: `${gate.url}/ai`, sessionId, ...more })
      onTestFinished(() => session.close())
      return session
    },
  }
}

/** The conversation as a person reads it: `role: content`, superseded ones left out. */
export function conversationOf(session: ChatSession): string[] {
  return [...session.collections.messages.values()]
    .filter((message) => message.supersededBy === null)
    .sort((a, b) => a.seq - b.seq)
    .map(({ role, content }) => `${role}: ${content}`)
}

/** Waits until the tab shows exactly this. */
export function shows(session: ChatSession, lines: readonly string[]): Promise<unknown> {
  const wanted = JSON.stringify(lines)
  return pollUntil(
    `the conversation ${wanted}`,
    () => JSON.stringify(conversationOf(session)) === wanted,
  ).catch((error: Error) => {
    throw new Error(`${error.message}; it shows ${JSON.stringify(conversationOf(session))}`)
  })
}

/** The generation of the newest turn, once its row is in the tab. */
export async function newestGeneration(session: ChatSession, count = 1): Promise<string> {
  const rows = await pollUntil(`${count} generations`, () => {
    const all = [...session.collections.generations.values()]
    return all.length >= count && all
  })
  return rows.sort((a, b) => +a.createdAt - +b.createdAt).at(-1)!.id
}
