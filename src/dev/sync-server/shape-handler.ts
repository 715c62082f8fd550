/** `GET`, `POST` and `DELETE /v1/shape`: which of the answers a request gets, and from which shape. */
import type { ServerResponse } from 'node:http'
import type { Arrivals } from './arrivals.js'
import {
  CACHE,
  offsetOf,
  pageOf,
  sendJson,
  shapeHeaders,
  snapshotEnd,
  upToDate,
} from './answers.js'
import type { Live } from './live.js'
import { invalidRequest, mustRefetch, notReady } from './request-error.js'
import type { RequestError } from './request-error.js'
import { readDefinition, readShapeRequest } from './requests.js'
import type { ShapeRequest, SubsetRequest } from './requests.js'
import { createHandle, definitionKey, ShapeEnded } from './shape.js'
import type { Shape, ShapeDefinition } from './shape.js'
import { requestErrorFor } from './shapes.js'
import type { Shapes } from './shapes.js'
import { readRows } from './snapshot.js'
import { snapshotHeaders } from './snapshot-visibility.js'
import type { TableFacts } from './table-facts.js'
import type { TextPool } from './text-connections.js'
import { parseOrderBy, parseWhere } from './where-clause.js'

export interface ShapeHandler {
  get(query: URLSearchParams, response: ServerResponse, body?: unknown): Promise<void>
  delete(query: URLSearchParams, response: ServerResponse): void
  /** What a client whose log is gone is told. */
  refetch(request: ShapeRequest): RequestError
}

interface ShapeHandlerOptions {
  pool: TextPool
  shapes: Shapes
  arrivals: Arrivals
  live: () => Live
}

const REOPENINGS = 5
/**
 * Subsets asked for at the same time, before the stream began, each set where it begins, and the last
 * one wins: it must not begin after the snapshot of another. What is told twice the client drops.
 */
const SUBSET_OVERLAP_MS = 2_000

export function createShapeHandler(options: ShapeHandlerOptions): ShapeHandler {
  return new ShapeRequests(options)
}

class ShapeRequests implements ShapeHandler {
  readonly #options: ShapeHandlerOptions

  constructor(options: ShapeHandlerOptions) {
    this.#options = options
  }

  async get(query: URLSearchParams, response: ServerResponse, body?: unknown): Promise<void> {
    const request = readShapeRequest(query, body)
    const { offset, subset } = request
    if (subset) return this.#sendSubset(request, subset, response)
    if (offset === '-1') return this.#sendBeginning(request, response)
    if (offset === 'now') return this.#sendNow(request, response)
    return this.#sendLog(request, offset, response)
  }

  delete(query: URLSearchParams, response: ServerResponse): void {
    const { shapes } = this.#options
    const handle = query.get('handle')
    const shape = handle ? shapes.byHandle(handle) : shapes.current(readDefinition(query))
    if (shape) shapes.rotate([shape], 'deleted by a client')
    const body = shape ? '' : JSON.stringify({ message: 'Shape not found' })
    sendJson(response, shape ? 202 : 404, body, { 'cache-control': CACHE.none })
  }

  refetch({ definition, handle }: ShapeRequest): RequestError {
    const { shapes } = this.#options
    const current = shapes.current(definition)
    // A client does not take back the handle it was just told to leave.
    if (current?.handle === handle && current) shapes.supersede(current)
    return mustRefetch(shapes.current(definition)?.handle ?? createHandle())
  }

  async #sendBeginning(request: ShapeRequest, response: ServerResponse): Promise<void> {
    const shape = await this.#openReady(request.definition)
    const { rows } = shape
    const body = rows ? [rows.json, snapshotEnd(rows.snapshot)].filter(Boolean).join(',') : ''
    const offset = offsetOf(rows ? shape.log.start : this.#options.arrivals.tail)
    const headers = { ...shapeHeaders(shape, offset), 'cache-control': CACHE.snapshot }
    sendJson(response, 200, `[${body}]`, headers)
  }

  async #sendNow(request: ShapeRequest, response: ServerResponse): Promise<void> {
    const shape = await this.#openReady(request.definition)
    const { tail } = this.#options.arrivals
    sendJson(response, 200, `[${upToDate(tail)}]`, {
      ...shapeHeaders(shape, offsetOf(tail)),
      'electric-up-to-date': '',
      'cache-control': CACHE.none,
    })
  }

  #sendLog(request: ShapeRequest, lsn: bigint, response: ServerResponse): void {
    const { live, arrivals } = this.#options
    const shape = this.#followed(request, lsn)
    if (request.sse) return live().sse(shape, request, lsn, response)
    if (request.live) return live().longPoll(shape, request, lsn, response)
    const page = pageOf(shape.log.after(lsn)!)
    const end = page.complete ? [upToDate(arrivals.tail)] : []
    sendJson(response, 200, `[${[...page.messages, ...end].join(',')}]`, {
      ...shapeHeaders(shape, page.offset ?? request.offsetText),
      ...(page.complete ? { 'electric-up-to-date': '' } : {}),
      'cache-control': CACHE.log,
    })
  }

  async #sendSubset(
    request: ShapeRequest,
    wish: SubsetRequest,
    response: ServerResponse,
  ): Promise<void> {
    const { shapes, arrivals, pool } = this.#options
    const { offset } = request
    const goesOn = typeof offset === 'bigint'
    const shape = goesOn ? this.#followed(request, offset) : await shapes.open(request.definition)
    const overlapped = arrivals.tailBefore(SUBSET_OVERLAP_MS)
    const begin = overlapped > shape.log.start ? overlapped : shape.log.start
    const subset = planSubset(shape.view.table, wish)
    const mark = Math.floor(Math.random() * 2 ** 31)
    const read = readRows(pool, shape, arrivals.xids(), subset, { snapshot_mark: mark })
    const { snapshot, databaseLsn, messages } = await read.catch((thrown: unknown) => {
      throw requestErrorFor(thrown, 'subset.where')
    })
    shape.touch()
    const place = { snapshot_mark: mark, database_lsn: databaseLsn }
    const metadata = JSON.stringify({ ...snapshotHeaders(snapshot), ...place })
    sendJson(response, 200, `{"metadata":${metadata},"data":[${messages.join(',')}]}`, {
      ...shapeHeaders(shape, goesOn ? request.offsetText : offsetOf(begin)),
      'electric-snapshot': 'true',
      'cache-control': CACHE.none,
    })
  }

  /** The shape a request goes on with, if all that came after its offset is still there. */
  #followed(request: ShapeRequest, lsn: bigint): Shape {
    const { shapes, arrivals } = this.#options
    const shape = shapes.byHandle(request.handle!)
    if (shape === undefined || shape.key !== definitionKey(request.definition)) {
      throw this.refetch(request)
    }
    if (lsn > arrivals.tail || shape.log.after(lsn) === undefined) throw this.refetch(request)
    shape.touch()
    return shape
  }

  /** With its rows. Shapes can end while these are read: then the next one. */
  async #openReady(definition: ShapeDefinition): Promise<Shape> {
    for (let attempt = 1; attempt <= REOPENINGS; attempt += 1) {
      const shape = await this.#options.shapes.open(definition)
      shape.touch()
      await shape.ready.catch((thrown: unknown) => {
        if (!(thrown instanceof ShapeEnded)) throw thrown
      })
      if (shape.rows || (definition.log === 'changes_only' && !shape.ended)) return shape
    }
    throw notReady('The table changes too often')
  }
}

function planSubset(table: TableFacts, wish: SubsetRequest) {
  const where = wish.where ? parseWhere(wish.where, table, 'subset.where') : undefined
  const orderBy = wish.orderBy ? parseOrderBy(wish.orderBy, table, 'subset.order_by') : undefined
  const { limit, offset, params } = wish
  const count = where?.paramCount ?? 0
  if (count !== params.length) {
    throw invalidRequest('subset.params', `the clause has ${count}, given are ${params.length}`)
  }
  return { where, orderBy, limit, offset, params }
}
