/**
 * A client's shape request as the one that goes to Electric. Of what the client sent only the protocol's own
 * parameters pass; table, columns, filter, replica mode and secret are set here, over whatever it tried.
 *
 * Answers pass as they come, by a list of headers; Electric's refusals do not, because they quote the request.
 */
import { z } from 'zod'
import { AiDbError } from '../errors.js'
import { forward, pickHeaders, privateCaching, UpstreamError } from '../internal/forward.js'
import type { Shape } from './shapes.js'
import { requireNarrowing } from './subset-filter.js'

export interface ElectricOptions {
  /** Electric's origin; shapes are at `/v1/shape` below it. */
  url: string | URL
  /** Electric's ELECTRIC_SECRET. Clients never see it. @default none */
  secret?: string
  /** Electric Cloud's source. @default none */
  sourceId?: string
}

/** `ELECTRIC_PROTOCOL_QUERY_PARAMS` of `@electric-sql/client`; a test holds the two equal. */
export const protocolParams = [
  ...['live', 'live_sse', 'experimental_live_sse', 'handle', 'offset', 'cursor'],
  ...['expired_handle', 'log', 'subset__where', 'subset__limit', 'subset__offset'],
  ...['subset__order_by', 'subset__params', 'subset__where_expr', 'subset__order_by_expr'],
  'cache-buster',
] as const

/** The answer's headers a client of the protocol reads. */
export const shapeHeaders = [
  ...['electric-handle', 'electric-offset', 'electric-schema', 'electric-cursor'],
  ...['electric-up-to-date', 'electric-snapshot', 'electric-has-data', 'content-type', 'etag'],
  'retry-after',
] as const

/** A subset asked for in the body. Its `_expr` twins are for proxies that rewrite columns: this one does not. */
export const subsetBody = z.strictObject({
  where: z.string().max(100_000).optional(),
  params: z
    .record(z.string().regex(/^\d{1,5}$/), z.union([z.string(), z.number(), z.boolean()]))
    .optional(),
  limit: z.number().int().min(0).optional(),
  offset: z.number().int().min(0).optional(),
  order_by: z.string().max(10_000).optional(),
  where_expr: z.unknown().optional(),
  order_by_expr: z.unknown().optional(),
})

export interface ShapeRequest {
  /** What the client sent. */
  request: Request
  query: URLSearchParams
  shape: Shape
  /** Of a POST. */
  subset?: z.output<typeof subsetBody>
  fetch: typeof fetch
}

/**
 * @throws AiDbError INVALID_INPUT when the request is not one of the protocol; UpstreamError when Electric is
 *   down or refuses us.
 */
export async function readShape(electric: ElectricOptions, asked: ShapeRequest): Promise<Response> {
  const { request, query, shape, subset } = asked
  checkSubset(shape, clausesOf(query, subset))
  const answer = await forward({
    service: 'Electric',
    url: upstreamUrl(electric, shape, query),
    headers: {
      ...pickHeaders(request.headers, ['accept', 'if-none-match']),
      ...(subset && { 'content-type': 'application/json' }),
    },
    ...(subset && { method: 'POST', body: bodyOf(subset) }),
    signal: request.signal,
    fetch: asked.fetch,
  })
  return passedBack(answer)
}

interface Clause {
  field: string
  sql: string | undefined
  /** Was its structured twin sent? */
  structured: boolean
}

function clausesOf(query: URLSearchParams, subset: ShapeRequest['subset']): Clause[] {
  const inQuery = (field: string) => ({
    field,
    sql: query.get(field) ?? undefined,
    structured: query.has(`${field}_expr`),
  })
  return [
    inQuery('subset__where'),
    inQuery('subset__order_by'),
    { field: 'where', sql: subset?.where, structured: subset?.where_expr !== undefined },
    { field: 'order_by', sql: subset?.order_by, structured: subset?.order_by_expr !== undefined },
  ]
}

function checkSubset(shape: Shape, clauses: readonly Clause[]): void {
  for (const { field, sql, structured } of clauses) {
    if (sql !== undefined) requireNarrowing(field, sql, shape.columns)
    // Not passed on, so it must not be all there is: the rows would be more than were asked for.
    else if (structured) {
      throw new AiDbError(
        'INVALID_INPUT',
        `${field}_expr came without ${field}. Send both, as Electric's client does.`,
        { field },
      )
    }
  }
}

function upstreamUrl(electric: ElectricOptions, shape: Shape, query: URLSearchParams): URL {
  const url = new URL(electric.url)
  url.pathname = `${url.pathname.replace(/(\/v1\/shape)?\/*$/, '')}/v1/shape`
  const params = url.searchParams
  for (const name of protocolParams) {
    const value = query.get(name)
    if (value !== null && !name.endsWith('_expr')) params.set(name, value)
  }
  params.set('table', shape.table)
  params.set('columns', shape.columns.map((column) => `"${column}"`).join(','))
  params.set('where', shape.where)
  params.set('params[1]', shape.param)
  params.set('replica', 'full')
  if (electric.secret !== undefined) params.set('secret', electric.secret)
  if (electric.sourceId !== undefined) params.set('source_id', electric.sourceId)
  return url
}

function bodyOf(subset: z.output<typeof subsetBody>): string {
  const { where_expr: _where, order_by_expr: _orderBy, ...passed } = subset
  return JSON.stringify(passed)
}

function passedBack(answer: Response): Response {
  const { status, headers } = answer
  // 409: the shape was made anew; clients start over with the handle that the answer names.
  if (answer.ok || status === 304 || status === 409) {
    return new Response(answer.body, {
      status,
      headers: {
        ...pickHeaders(headers, shapeHeaders),
        ...privateCaching(headers.get('cache-control')),
      },
    })
  }
  void answer.body?.cancel()
  if (status === 400) {
    throw new AiDbError(
      'INVALID_INPUT',
      'Electric refused the offset, the handle or the subset. Send what its client library sends.',
    )
  }
  throw new UpstreamError('Electric', `answered ${status}. Check its secret and its log.`)
}
