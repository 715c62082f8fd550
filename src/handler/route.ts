/**
 * A route as a value: what it asks `authorize` for cannot be left out, and nothing of it runs before the answer.
 *
 * The order is the same for all: path → body → authorize → rate limit → one verb → answer.
 */
import type { z } from 'zod'
import { ask, type Action, type Allowed } from './authorize.js'
import { readBody, type BodySchema } from './body.js'
import type { Host } from './options.js'
import { Refusal } from './problem.js'

/** A request that was understood. */
export interface Asked<Part extends string, Body> {
  request: Request
  host: Host
  /** The variable parts of the path, decoded. */
  path: Readonly<Record<Part, string>>
  query: URLSearchParams
  body: Body
}

/** ... and allowed. */
export interface Granted<Part extends string, Body> extends Asked<Part, Body> {
  grant: Allowed
}

export interface RouteDefinition<Part extends string, Schema extends BodySchema | undefined> {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** Of `paths` in the contract. */
  path: (...parts: string[]) => string
  /** Names of the path's variable parts, in order. */
  parts: readonly Part[]
  body?: Schema
  /** What it asks for, with everything it names. */
  action(asked: Asked<Part, BodyOf<Schema>>): Action
  /** @returns an answer's JSON, or the answer. */
  run(granted: Granted<Part, BodyOf<Schema>>): Promise<object>
}

type BodyOf<Schema> = Schema extends BodySchema ? z.output<Schema> : undefined

export interface Route {
  readonly method: RouteDefinition<string, undefined>['method']
  /** As Hono reads it: `/sessions/:sessionId`. */
  readonly pattern: string
  /** @param onAction hears what is asked for as soon as that is known. */
  serve(
    incoming: Pick<Asked<string, undefined>, 'request' | 'host' | 'path' | 'query'>,
    onAction: (action: Action) => void,
  ): Promise<Response>
}

/** Ids have 200 characters; a tool call's may be longer, as a provider's id is part of it. */
const MAX_PART = 400

export function defineRoute<
  const Part extends string = never,
  Schema extends BodySchema | undefined = undefined,
>(definition: RouteDefinition<Part, Schema>): Route {
  const { method, parts, body: schema } = definition
  return {
    method,
    pattern: decodeURIComponent(definition.path(...parts.map((part) => `:${part}`))),
    async serve(incoming, onAction) {
      const { request, host } = incoming
      for (const part of parts) requirePart(part, incoming.path[part] ?? '')
      const body = schema && (await readBody(request, schema, host.maxBodyBytes))
      const asked = { ...incoming, body } as Asked<Part, BodyOf<Schema>>
      const action = definition.action(asked)
      onAction(action)
      const grant = await ask(host.authorize, request, action)
      await requireRate(host, request, action, grant)
      return toResponse(await definition.run({ ...asked, grant }))
    },
  }
}

function requirePart(field: string, value: string): void {
  // A dot segment would not survive in the address of a generation's stream.
  if (value.length <= MAX_PART && value !== '.' && value !== '..' && !/\p{Cc}/u.test(value)) return
  const message = `${field} is not an id. An id has 1 to 200 characters and is not a path.`
  throw new Refusal(400, 'INVALID_INPUT', message, { field })
}

async function requireRate(
  host: Host,
  request: Request,
  action: Action,
  grant: Allowed,
): Promise<void> {
  const limited = await host.rateLimit?.(request, action, grant)
  if (!limited) return
  const seconds = Math.max(1, Math.ceil(limited.retryAfterMs / 1000))
  throw new Refusal(429, 'RATE_LIMITED', `Too many requests. Try again in ${seconds} s.`, {
    headers: { 'retry-after': String(seconds) },
  })
}

function toResponse(answer: object): Response {
  if (answer instanceof Response) return answer
  return new Response(JSON.stringify(answer), {
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
  })
}
