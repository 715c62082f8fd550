/** The HTTP side: paths, methods, the secret, CORS, the body of a POST, and errors as answers. */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { CACHE, CORS_HEADERS, sendJson } from './answers.js'
import { RequestError } from './request-error.js'
import type { ShapeHandler } from './shape-handler.js'

export interface HttpOptions {
  shape: ShapeHandler
  secret: string | undefined
  isActive(): boolean
  onLog(line: string): void
}

const MAX_BODY_BYTES = 1_000_000

export function createRequestListener(options: HttpOptions): RequestListener {
  return (request, response) => {
    // A client that hangs up is no error of ours.
    response.on('error', () => {})
    void route(options, request, response).catch((thrown: unknown) => {
      if (thrown instanceof RequestError) return sendError(response, thrown)
      const why = thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown)
      options.onLog(`sync server: ${request.method} failed: ${why}`)
      sendError(response, new RequestError(500, { message: 'Internal error' }))
    })
  }
}

export function sendError(response: ServerResponse, error: RequestError): void {
  if (response.headersSent) return void response.end()
  sendJson(response, error.status, JSON.stringify(error.body), {
    'cache-control': CACHE.none,
    ...error.headers,
  })
}

async function route(
  options: HttpOptions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://sync')
  if (request.method === 'OPTIONS') return sendOptions(request, response)
  if (url.pathname === '/v1/health') {
    const active = options.isActive()
    const body = JSON.stringify({ status: active ? 'active' : 'starting' })
    return sendJson(response, active ? 200 : 202, body, { 'cache-control': CACHE.none })
  }
  if (url.pathname !== '/v1/shape') throw new RequestError(404, { message: 'Not found' })
  requireSecret(options.secret, url.searchParams)
  switch (request.method) {
    case 'GET':
    case 'HEAD':
      return options.shape.get(url.searchParams, response)
    case 'POST':
      return options.shape.get(url.searchParams, response, await readJsonBody(request))
    case 'DELETE':
      return options.shape.delete(url.searchParams, response)
    default:
      throw new RequestError(405, { message: 'Method not allowed' })
  }
}

function requireSecret(secret: string | undefined, query: URLSearchParams): void {
  if (secret === undefined) return
  if ((query.get('secret') ?? query.get('api_secret')) === secret) return
  throw new RequestError(401, { message: 'Unauthorized - Invalid API secret' })
}

function sendOptions(request: IncomingMessage, response: ServerResponse): void {
  const asked = request.headers['access-control-request-headers']
  const allowed = asked ? { 'access-control-allow-headers': asked } : {}
  response.writeHead(204, { ...CORS_HEADERS, ...allowed, 'access-control-max-age': '86400' }).end()
}

async function readJsonBody(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > MAX_BODY_BYTES) throw new RequestError(413, { message: 'The body is too large' })
    chunks.push(chunk)
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8') || '{}') as unknown
  } catch {
    throw new RequestError(400, {
      message: 'Invalid request',
      errors: { body: ['is no valid JSON'] },
    })
  }
}
