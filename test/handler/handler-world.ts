/**
 * A handler behind a real HTTP server, over a database of its own, and people who call it. Alice owns the
 * sessions whose ids begin with `alice-`, Bob those with `bob-`; anyone without a name is nobody.
 */
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { afterAll } from 'vitest'
import type { Problem } from '../../src/contract/requests.js'
import type { Action, Denial, Grant } from '../../src/handler/authorize.js'
import { createHandler } from '../../src/handler/create-handler.js'
import type { HandlerOptions } from '../../src/handler/options.js'
import { createSession } from '../../src/sessions/create-session.js'
import type { DrizzleDatabase } from '../../src/internal/database.js'

export interface Answer {
  status: number
  headers: Headers
  /** Whatever came, parsed where it is JSON. */
  body: unknown
  text: string
}

export interface Said {
  as?: string | undefined
  body?: unknown
  /** Instead of `body`, as it is. */
  raw?: string | Uint8Array | ReadableStream
  headers?: Record<string, string>
  signal?: AbortSignal
}

export interface World {
  url: string
  handler: (request: Request) => Promise<Response>
  /** What authorize was asked, in order. */
  asked: Action[]
  /** What onError was told. */
  errors: unknown[]
  call(method: string, path: string, said?: Said): Promise<Answer>
}

export const EXAMPLE_ELECTRIC = 'http://127.0.0.1:9/'

/** Call it in `beforeAll`; the server closes with the file. */
export async function createWorld(
  options: Partial<HandlerOptions> & { db: DrizzleDatabase },
  mount: (handler: World['handler']) => RequestListener = (handler) => getRequestListener(handler),
): Promise<World> {
  const asked: Action[] = []
  const errors: unknown[] = []
  const handler = createHandler({
    electric: { url: EXAMPLE_ELECTRIC },
    authorize: (request, action) => {
      asked.push(action)
      return ownSessionsOnly(request, action)
    },
    onError: (error) => errors.push(error),
    ...options,
  })
  const url = await listen(createServer(mount(handler)))
  return { url, handler, asked, errors, call: (...said) => call(url, ...said) }
}

export async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterAll(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

export function ownSessionsOnly(request: Request, action: Action): Grant | Denial {
  const actor = request.headers.get('authorization')?.replace('Bearer ', '')
  if (!actor) return { deny: 'unauthenticated' }
  const { sessionId } = action
  if (sessionId !== undefined && !sessionId.startsWith(`${actor}-`)) return { deny: 'not-found' }
  return { actor }
}

export async function call(
  url: string,
  method: string,
  path: string,
  said: Said = {},
): Promise<Answer> {
  const { as = 'alice', body, raw, headers, signal } = said
  const sent = raw ?? (body === undefined ? undefined : JSON.stringify(body))
  const response = await fetch(`${url}${path}`, {
    method,
    headers: {
      ...(as !== '' && { authorization: `Bearer ${as}` }),
      ...(sent !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(sent !== undefined && { body: sent as BodyInit, duplex: 'half' }),
    ...(signal && { signal }),
  } as RequestInit)
  const text = await response.text()
  return { status: response.status, headers: response.headers, body: parsed(text), text }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

export const problemOf = (answer: Answer) => answer.body as Problem

let counter = 0

/** An id nobody else in this file has. */
export const fresh = (what: string) => `${what}-h${(counter += 1)}`

/** A session of somebody's. @returns its id */
export async function sessionOf(
  db: DrizzleDatabase,
  owner: string,
  schema = 'ai_db',
): Promise<string> {
  return (await createSession(db, { id: fresh(owner) }, { schema })).id
}
