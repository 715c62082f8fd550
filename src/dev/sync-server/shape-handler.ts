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
import { readDefinition, readShapeRequest } from './requests.js'
import type { ShapeRequest, SubsetRequest } from './requests.js'
import { createHandle, definitionKey } from './shape.js'
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
  refetch(request: ShapeRequest): Error
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
  const { shapes, arrivals, pool } = options

  const refetch = ({ definition, handle }: ShapeRequest) => {
    const current = shapes.current(definition)
    // A client does not take back the handle it was just told to leave.
    if (current?.handle === handle && current) shapes.supersede(current)
    return mustRefetch(shapes.current(definition)?.handle ?? createHandle())
  }
  /** The shape a request goes on with, if all that came after its offset is still there. */
  const followed = (request: ShapeRequest, lsn: bigint): Shape => {
    const shape = shapes.byHandle(request.handle!)
    if (shape === undefined || shape.key !== definitionKey(request.definition)) {
      throw refetch(request)
    }
    if (lsn > arrivals.tail || shape.log.after(lsn) === undefined) throw refetch(request)
    shape.touch()
    return shape
  }
  /** Shapes can end while their rows are read: then the next one. */
  const openReady = async (definition: ShapeDefinition): Promise<Shape> => {
    for (let attempt = 1; attempt <= REOPENINGS; attempt += 1) {
      const shape = await shapes.open(definition)
      const failure = await shape.ready.then(
        () => undefined,
        (thrown: unknown) => thrown,
      )
      if (failure !== undefined && !isEnd(failure)) throw failure
      if (shape.rows || (definition.log === 'changes_only' && !shape.ended)) return shape
    }
    throw notReady('The table changes too often')
  }

  const sendBeginning = async (request: ShapeRequest, response: ServerResponse) => {
    const shape = await openReady(request.definition)
    shape.touch()
    const { rows } = shape
    const body = rows ? [rows.json, snapshotEnd(rows.snapshot)].filter(Boolean).join(',') : ''
    const offset = offsetOf(rows ? shape.log.start : arrivals.tail)
    const headers = { ...shapeHeaders(shape, offset), 'cache-control': CACHE.snapshot }
    sendJson(response, 200, `[${body}]`, headers)
  }
  const sendNow = async (request: ShapeRequest, response: ServerResponse) => {
    const shape = await openReady(request.definition)
    shape.touch()
    const { tail } = arrivals
    sendJson(response, 200, `[${upToDate(tail)}]`, {
      ...shapeHeaders(shape, offsetOf(tail)),
      'electric-up-to-date': '',
      'cache-control': CACHE.none,
    })
  }
  const sendLog = (request: ShapeRequest, lsn: bigint, response: ServerResponse) => {
    const shape = followed(request, lsn)
    if (request.sse) return options.live().sse(shape, request, lsn, response)
    if (request.live) return options.live().longPoll(shape, request, lsn, response)
    const page = pageOf(shape.log.after(lsn)!)
    const end = page.complete ? [upToDate(arrivals.tail)] : []
    sendJson(response, 200, `[${[...page.messages, ...end].join(',')}]`, {
      ...shapeHeaders(shape, page.offset ?? request.offsetText),
      ...(page.complete ? { 'electric-up-to-date': '' } : {}),
      'cache-control': CACHE.log,
    })
  }
  const sendSubset = async (
    request: ShapeRequest,
    wish: SubsetRequest,
    response: ServerResponse,
  ) => {
    const { offset } = request
    const goesOn = typeof offset === 'bigint'
    const shape = goesOn ? followed(request, offset) : await shapes.open(request.definition)
    const overlapped = arrivals.tailBefore(SUBSET_OVERLAP_MS)
    const begin = overlapped > shape.log.start ? overlapped : shape.log.start
    const subset = planSubset(shape.view.table, wish)
    const mark = Math.floor(Math.random() * 2 ** 31)
    const headers = { snapshot_mark: mark }
    const read = readRows(pool, shape, arrivals.xids(), subset, headers)
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
  return {
    refetch,
    async get(query, response, body) {
      const request = readShapeRequest(query, body)
      const { offset, subset } = request
      if (subset) return sendSubset(request, subset, response)
      if (offset === '-1') return sendBeginning(request, response)
      if (offset === 'now') return sendNow(request, response)
      return sendLog(request, offset, response)
    },
    delete(query, response) {
      const handle = query.get('handle')
      const shape = handle ? shapes.byHandle(handle) : shapes.current(readDefinition(query))
      const unknown = shape === undefined
      if (shape) shapes.rotate([shape], 'deleted by a client')
      const body = unknown ? JSON.stringify({ message: 'Shape not found' }) : ''
      sendJson(response, unknown ? 404 : 202, body, { 'cache-control': CACHE.none })
    },
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

function isEnd(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.message === 'the shape ended'
}
