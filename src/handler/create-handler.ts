/**
 * The handler: everything a browser session needs over HTTP, as one fetch-style function for any framework.
 *
 * What it keeps: nothing. Every decision is the host's `authorize`, every fact a row. Any number of processes serve
 * the same clients, and one that dies loses no write that was answered.
 *
 * What it is not: a login, or a place for rules. It knows nobody until `authorize` names an actor.
 */
import { Hono, type Context } from 'hono'
import { shapeHeaders } from '../electric/proxy.js'
import type { Action } from './authorize.js'
import { corsFor } from './cors.js'
import { resolveHandlerOptions, type HandlerOptions, type Host } from './options.js'
import { answerFailure, problem, Refusal } from './problem.js'
import type { Route } from './route.js'
import { routes } from './routes.js'
import { streamHeaders } from './stream.js'

/**
 * Makes the handler.
 *
 * @returns answers every request, with a problem where it must; it never rejects.
 * @throws AiDbError INVALID_OPTION naming the option.
 */
export function createHandler(options: HandlerOptions): (request: Request) => Promise<Response> {
  const host = resolveHandlerOptions(options)
  const app = new Hono({ getPath: (request) => pathUnder(host.basePath, request.url) })
  if (host.cors) app.use(corsFor(host.cors, [...shapeHeaders, ...streamHeaders]))
  for (const route of routes) {
    app.on(route.method, route.pattern, (context) => serve(route, host, context))
  }
  for (const pattern of new Set(routes.map((route) => route.pattern))) {
    const allow = allowed(pattern)
    app.all(pattern, ({ req }) =>
      req.method === 'OPTIONS' ? options204(allow) : refused405(allow),
    )
  }
  app.notFound(() => problem(404, 'NOT_FOUND', 'There is nothing at this address. Check the path.'))
  app.onError((error, { req }) => failed(error, host, req.raw, undefined))
  return async (request) => app.fetch(request)
}

/**
 * The path as routes read it: below the mount point, and not decoded, so that an encoded slash or dot is part
 * of an id and never of the way. What is not below the mount point matches nothing.
 */
function pathUnder(basePath: string, url: string): string {
  const { pathname } = new URL(url)
  if (!pathname.startsWith(`${basePath}/`)) return ''
  return pathname.slice(basePath.length)
}

async function serve(route: Route, host: Host, { req }: Context): Promise<Response> {
  const request = req.raw
  let action: Action | undefined
  try {
    const path = decodeParts(
      req.param() as Record<string, string>,
      pathUnder(host.basePath, req.url),
    )
    const query = new URL(request.url).searchParams
    const response = await route.serve({ request, host, path, query }, (asked) => (action = asked))
    if (req.method !== 'HEAD') return response
    // Nobody reads it: whatever is behind it has to end.
    await response.body?.cancel()
    return new Response(null, response)
  } catch (error) {
    return failed(error, host, request, action)
  }
}

/** Hono leaves a part as it is where its encoding is broken; that is no id. */
function decodeParts(parts: Record<string, string>, path: string): Record<string, string> {
  try {
    decodeURIComponent(path)
    return parts
  } catch {
    throw new Refusal(400, 'INVALID_INPUT', 'The path is not well encoded. Encode each id.')
  }
}

function failed(
  error: unknown,
  host: Host,
  request: Request,
  action: Action | undefined,
): Response {
  // The client went away: nobody reads this, and it is nobody's fault.
  if (request.signal.aborted) return new Response(null, { status: 499 })
  const { response, unexpected } = answerFailure(error, action)
  if (unexpected) tell(host, error, request)
  return response
}

function tell(host: Host, error: unknown, request: Request): void {
  try {
    host.onError(error, request)
  } catch {
    // A host's log must not cost its clients their answer.
  }
}

function allowed(pattern: string): string {
  const methods = routes.filter((route) => route.pattern === pattern).map((route) => route.method)
  return [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].join(', ')
}

const options204 = (allow: string) => new Response(null, { status: 204, headers: { allow } })

const refused405 = (allow: string) =>
  problem(405, 'INVALID_INPUT', `This address answers ${allow}. Use one of them.`, {
    headers: { allow },
  })
