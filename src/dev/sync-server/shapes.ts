/**
 * All shapes of the server: opened by definition, found by handle, ended together.
 *
 * Opening: the table is published and read (publication.ts), the clause checked by the guard and by
 * Postgres, its parameters by their types; then the shape joins between two batches of transactions,
 * and only then its snapshot is taken. So each transaction is in the snapshot or in the log, and
 * those in both are dropped from the log.
 */
import { systemCode } from '../dev-stack-error.js'
import type { Arrivals } from './arrivals.js'
import { canonicalParams, createEvaluator, describeParams } from './evaluate.js'
import type { Evaluator } from './evaluate.js'
import type { Pipeline } from './pipeline.js'
import { followTable } from './publication.js'
import { invalidRequest, notReady, RequestError } from './request-error.js'
import { createShape, definitionKey } from './shape.js'
import type { Shape, ShapeDefinition } from './shape.js'
import type { ShapeTables } from './shape-tables.js'
import { readRows } from './snapshot.js'
import type { TableFacts } from './table-facts.js'
import type { TextPool } from './text-connections.js'
import { parseWhere } from './where-clause.js'

export interface Shapes {
  /** The shape newcomers get, made when there is none. It may still be waiting for its rows. */
  open(definition: ShapeDefinition): Promise<Shape>
  /** The shape newcomers get, if there is one. */
  current(definition: ShapeDefinition): Shape | undefined
  byHandle(handle: string): Shape | undefined
  /** Newcomers get another one from now on; clients of this one go on. */
  supersede(shape: Shape): void
  rotate(shapes: Iterable<Shape>, why: string): void
  rotateAll(why: string): void
  dropIdle(idleMs: number): void
  readonly size: number
}

export interface ShapesOptions {
  pool: TextPool
  evaluationPool: TextPool
  pipeline: Pipeline
  arrivals: Arrivals
  tables: () => ShapeTables
  /** Resolves with a number for the replication session once there is one. */
  session(): Promise<number>
  onLog(line: string): void
}

interface Plan {
  table: TableFacts
  columns: readonly string[]
  clause: ReturnType<typeof parseWhere> | undefined
  evaluator: Evaluator | undefined
  params: readonly string[]
}

const ATTEMPTS = 5

export function createShapes(options: ShapesOptions): Shapes {
  const byHandle = new Map<string, Shape>()
  const current = new Map<string, Shape>()
  const opening = new Map<string, Promise<Shape>>()

  const remove = (shape: Shape) => {
    byHandle.delete(shape.handle)
    if (current.get(shape.key) === shape) current.delete(shape.key)
    options.tables().remove(shape)
    shape.end()
  }
  const rotate = (shapes: Iterable<Shape>, why: string) => {
    const all = [...shapes]
    if (all.length > 0) options.onLog(`sync server: ${all.length} shapes start over: ${why}`)
    for (const shape of all) remove(shape)
  }
  const join = (definition: ShapeDefinition, plan: Plan): Shape => {
    const { table, columns, clause, evaluator, params } = plan
    rotate(options.tables().outdated(table), 'the table changed')
    const view = { table, columns, replica: definition.replica }
    const shape = createShape(definition, view, clause, options.arrivals.tail)
    byHandle.set(shape.handle, shape)
    current.set(shape.key, shape)
    options.tables().add(shape, evaluator, params)
    return shape
  }
  const fill = async (shape: Shape, arrived: readonly number[]) => {
    try {
      if (shape.definition.log === 'changes_only') return shape.setRows(undefined)
      const { snapshot, messages } = await readRows(options.pool, shape, arrived)
      shape.setRows({ json: messages.join(','), snapshot })
    } catch (thrown) {
      shape.fail(requestErrorFor(thrown, 'where'))
      remove(shape)
    }
  }
  const openNew = async (definition: ShapeDefinition): Promise<Shape> => {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      const session = await options.session()
      const plan = await makePlan(options, definition)
      const shape = await options.pipeline.between(() => join(definition, plan))
      const arrived = options.arrivals.xids()
      // A session that began meanwhile does not know what the one before had not told yet.
      if ((await options.session()) === session) {
        void fill(shape, arrived)
        return shape
      }
      remove(shape)
    }
    throw notReady('Replication does not stay up')
  }
  return {
    open(definition) {
      const key = definitionKey(definition)
      const known = current.get(key)
      if (known) return Promise.resolve(known)
      let promise = opening.get(key)
      if (promise === undefined) {
        promise = openNew(definition).finally(() => opening.delete(key))
        opening.set(key, promise)
      }
      return promise
    },
    current: (definition) => current.get(definitionKey(definition)),
    byHandle: (handle) => byHandle.get(handle),
    supersede(shape) {
      if (current.get(shape.key) === shape) current.delete(shape.key)
    },
    rotate,
    rotateAll: (why) => rotate(byHandle.values(), why),
    dropIdle(idleMs) {
      const idle = [...byHandle.values()].filter((shape) => shape.idleMs() > idleMs)
      if (idle.length > 0) rotate(idle, 'nobody asked for them')
    },
    get size() {
      return byHandle.size
    },
  }
}

async function makePlan(options: ShapesOptions, definition: ShapeDefinition): Promise<Plan> {
  const { pool, evaluationPool } = options
  const table = await followTable(pool, definition.schema, definition.name)
  const columns = chosenColumns(table, definition.columns)
  if (definition.where === undefined) {
    if (definition.params.length > 0) throw invalidRequest('params', 'given without a where clause')
    return { table, columns, clause: undefined, evaluator: undefined, params: [] }
  }
  const clause = parseWhere(definition.where, table, 'where')
  if (clause.paramCount !== definition.params.length) {
    const problem = `the clause has ${clause.paramCount}, given are ${definition.params.length}`
    throw invalidRequest('params', problem)
  }
  try {
    const types = await describeParams(pool, table, clause)
    const params = await canonicalParams(pool.query, types, definition.params)
    const evaluator = createEvaluator(evaluationPool.query, table, clause, types)
    return { table, columns, clause, evaluator, params }
  } catch (thrown) {
    throw requestErrorFor(thrown, 'where')
  }
}

function chosenColumns(table: TableFacts, wish: readonly string[] | undefined): readonly string[] {
  const all = table.columns.map((column) => column.name)
  if (wish === undefined) return all
  const unknown = wish.filter((name) => !all.includes(name))
  if (unknown.length > 0) {
    throw invalidRequest('columns', `The following columns are not found: ${unknown.join(', ')}`)
  }
  const missing = table.keyColumns.filter((name) => !wish.includes(name))
  if (missing.length > 0) {
    throw invalidRequest(
      'columns',
      `Must include all primary key columns, missing: ${missing.join(', ')}`,
    )
  }
  return all.filter((name) => wish.includes(name))
}

/** What Postgres says of a clause or its parameters is the client's error; that it is away is ours. */
export function requestErrorFor(thrown: unknown, field: string): unknown {
  if (thrown instanceof RequestError) return thrown
  const code = systemCode(thrown)
  // Class 22: data exception, 42: syntax error or access rule, 0A: feature not supported.
  if (code !== undefined && /^(22|42|0A)...$/.test(code)) {
    return invalidRequest(field, (thrown as Error).message)
  }
  return notReady('The database is not reachable')
}
