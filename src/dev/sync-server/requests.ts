/** What a client asks for: the query of `/v1/shape`, and the body of a subset that was posted. */
import { readNames } from './identifiers.js'
import { invalidRequest } from './request-error.js'
import type { ShapeDefinition } from './shape.js'

export interface SubsetRequest {
  where: string | undefined
  params: readonly string[]
  orderBy: string | undefined
  limit: number | undefined
  offset: number | undefined
}

export interface ShapeRequest {
  definition: ShapeDefinition
  handle: string | undefined
  offset: '-1' | 'now' | bigint
  /** The offset as it came. */
  offsetText: string
  live: boolean
  sse: boolean
  cursor: string | undefined
  subset: SubsetRequest | undefined
}

export function readShapeRequest(query: URLSearchParams, body?: unknown): ShapeRequest {
  const offsetText = query.get('offset') ?? ''
  const handle = query.get('handle') ?? undefined
  const live = readFlag(query, 'live')
  const offset = readOffset(offsetText)
  if (typeof offset === 'bigint' && handle === undefined) {
    throw invalidRequest('handle', "can't be blank when offset != -1")
  }
  if (live && offset === '-1') throw invalidRequest('live', "can't be true when offset == -1")
  return {
    definition: readDefinition(query),
    handle,
    offset,
    offsetText,
    live,
    sse: live && (readFlag(query, 'live_sse') || readFlag(query, 'experimental_live_sse')),
    cursor: query.get('cursor') ?? undefined,
    subset: body === undefined ? subsetOfQuery(query) : subsetOfBody(body),
  }
}

export function readDefinition(query: URLSearchParams): ShapeDefinition {
  const table = query.get('table')
  if (!table) throw invalidRequest('table', "can't be blank")
  const names = readNames(table, '.')
  if (names === undefined || names.length > 2) {
    throw invalidRequest('table', 'Invalid zero-length delimited identifier or table name')
  }
  const columns = query.get('columns')
  const chosen = columns ? readNames(columns, ',') : undefined
  if (columns && chosen === undefined) throw invalidRequest('columns', 'is no list of column names')
  return {
    schema: names.length === 2 ? names[0]! : 'public',
    name: names.at(-1)!,
    where: query.get('where')?.trim() || undefined,
    params: paramsOfQuery(query),
    columns: chosen,
    replica: readWord(query, 'replica', ['default', 'full']),
    log: readWord(query, 'log', ['full', 'changes_only']),
  }
}

function readOffset(text: string): ShapeRequest['offset'] {
  if (text === '-1' || text === 'now') return text
  const match = /^(\d{1,20})_(\d{1,20}|inf)$/.exec(text)
  if (match !== null) return BigInt(match[1]!)
  throw invalidRequest('offset', text === '' ? "can't be blank" : 'has invalid format')
}

function readFlag(query: URLSearchParams, name: string): boolean {
  const value = query.get(name)
  if (value === null || value === 'false') return false
  if (value === 'true') return true
  throw invalidRequest(name, 'is invalid')
}

function readWord<W extends string>(
  query: URLSearchParams,
  name: string,
  known: readonly [W, W],
): W {
  const value = query.get(name) ?? known[0]
  const word = known.find((one) => one === value)
  if (word === undefined)
    throw invalidRequest(name, `is invalid, expected one of ${known.join(', ')}`)
  return word
}

/** `params[1]=a&params[2]=b`, or `params={"1":"a"}`. */
function paramsOfQuery(query: URLSearchParams): string[] {
  const json = query.get('params')
  if (json !== null) return listParams(parseJson(json, 'params'), 'params')
  const given: Record<string, string> = {}
  for (const [name, value] of query) {
    const match = /^params\[([^\]]*)\]$/.exec(name)
    if (match !== null) given[match[1]!] = value
  }
  return listParams(given, 'params')
}

/** Values by their numbers from 1 on, without a gap. */
function listParams(given: unknown, field: string): string[] {
  if (given === undefined || given === null) return []
  if (typeof given !== 'object')
    throw invalidRequest(field, 'must be an object of values by number')
  const entries = Array.isArray(given)
    ? given.map((value: unknown, at) => [`${at + 1}`, value] as const)
    : Object.entries(given)
  const values = new Map(entries)
  return Array.from({ length: values.size }, (_, at) => {
    const value = values.get(`${at + 1}`)
    if (typeof value === 'string' && !value.includes('\0')) return value
    if (typeof value === 'number' || typeof value === 'boolean') return String(value)
    throw invalidRequest(field, `Parameters must be numbered sequentially, starting from 1`)
  })
}

function subsetOfQuery(query: URLSearchParams): SubsetRequest | undefined {
  const names = ['where', 'params', 'limit', 'offset', 'order_by']
  if (!names.some((name) => query.has(`subset__${name}`))) return undefined
  const params = query.get('subset__params')
  return readSubset({
    where: query.get('subset__where'),
    params: params === null ? undefined : parseJson(params, 'subset.params'),
    limit: query.get('subset__limit'),
    offset: query.get('subset__offset'),
    order_by: query.get('subset__order_by'),
  })
}

function subsetOfBody(body: unknown): SubsetRequest {
  if (typeof body !== 'object' || body === null) throw invalidRequest('subset', 'must be an object')
  return readSubset(body as Record<string, unknown>)
}

function readSubset(given: Record<string, unknown>): SubsetRequest {
  const text = (name: string) => {
    const value = given[name]
    if (value == null || value === '') return undefined
    if (typeof value === 'string') return value
    throw invalidRequest(`subset.${name}`, 'must be a string')
  }
  const limit = readCount(given.limit, 'subset.limit')
  const offset = readCount(given.offset, 'subset.offset')
  const orderBy = text('order_by')
  if (orderBy === undefined && (limit !== undefined || offset !== undefined)) {
    throw invalidRequest('subset.order_by', 'order_by is required when limit or offset is present')
  }
  const params = listParams(given.params, 'subset.params')
  return { where: text('where'), params, orderBy, limit, offset }
}

function readCount(value: unknown, field: string): number | undefined {
  if (value == null || value === '') return undefined
  const count = typeof value === 'string' && /^\d{1,9}$/.test(value) ? Number(value) : value
  if (Number.isSafeInteger(count) && (count as number) >= 0) return count as number
  throw invalidRequest(field, 'must be a whole number')
}

function parseJson(text: string, field: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    throw invalidRequest(field, 'is no valid JSON')
  }
}
