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
import type { Clause } from './where-clause.js'

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
}

export interface ShapesOptions {
  pool: TextPool
  evaluationPool: TextPool
  pipeline: Pipeline
  arrivals: Arrivals
  tables: () => ShapeTables
  /** The parameter types of clauses seen before. */
  described: Map<string, string[]>
  /** Resolves with a number for the replication session once there is one. */
  session(): Promise<number>
  onLog(line: string): void
}

interface Plan {
  table: TableFacts
  columns: readonly string[]
  clause: Clause | undefined
  evaluator: Evaluator | undefined
  params: readonly string[]
}

const ATTEMPTS = 5
const MAX_DESCRIBED = 1_000

export function createShapes(options: ShapesOptions): Shapes {
  return new AllShapes(options)
}

class AllShapes implements Shapes {
  readonly #options: ShapesOptions
  readonly #byHandle = new Map<string, Shape>()
  readonly #current = new Map<string, Shape>()
  readonly #opening = new Map<string, Promise<Shape>>()

  constructor(options: ShapesOptions) {
    this.#options = options
  }

  open(definition: ShapeDefinition): Promise<Shape> {
    const key = definitionKey(definition)
    const known = this.#current.get(key)
    if (known) return Promise.resolve(known)
    let opening = this.#opening.get(key)
    if (opening === undefined) {
      opening = this.#openNew(definition).finally(() => this.#opening.delete(key))
      this.#opening.set(key, opening)
    }
    return opening
  }

  current(definition: ShapeDefinition): Shape | undefined {
    return this.#current.get(definitionKey(definition))
  }

  byHandle(handle: string): Shape | undefined {
    return this.#byHandle.get(handle)
  }

  supersede(shape: Shape): void {
    if (this.#current.get(shape.key) === shape) this.#current.delete(shape.key)
  }

  rotate(shapes: Iterable<Shape>, why: string): void {
    const all = [...shapes]
    if (all.length > 0) this.#options.onLog(`sync server: ${all.length} shapes end: ${why}`)
    for (const shape of all) this.#remove(shape)
  }

  rotateAll(why: string): void {
    this.rotate(this.#byHandle.values(), why)
  }

  dropIdle(idleMs: number): void {
    const idle = [...this.#byHandle.values()].filter((shape) => shape.idleMs() > idleMs)
    this.rotate(idle, 'nobody asked for them')
  }

  #remove(shape: Shape): void {
    this.#byHandle.delete(shape.handle)
    this.supersede(shape)
    this.#options.tables().remove(shape)
    shape.end()
  }

  async #openNew(definition: ShapeDefinition): Promise<Shape> {
    const { session, pipeline, arrivals } = this.#options
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      const number = await session()
      const plan = await makePlan(this.#options, definition)
      const shape = await pipeline.between(() => this.#join(definition, plan))
      const arrived = arrivals.xids()
      // A session that began meanwhile does not know what the one before had not told yet.
      if ((await session()) === number) {
        void this.#fill(shape, arrived)
        return shape
      }
      this.#remove(shape)
    }
    throw notReady('Replication does not stay up')
  }

  /** Runs between two batches: from the next one on the shape is told everything. */
  #join(definition: ShapeDefinition, plan: Plan): Shape {
    const { tables, arrivals } = this.#options
    const { table, columns, clause, evaluator, params } = plan
    this.rotate(tables().outdated(table), 'the table was changed')
    const view = { table, columns, replica: definition.replica }
    const shape = createShape(definition, view, clause, arrivals.tail)
    this.#byHandle.set(shape.handle, shape)
    this.#current.set(shape.key, shape)
    tables().add(shape, evaluator, params)
    return shape
  }

  async #fill(shape: Shape, arrived: readonly number[]): Promise<void> {
    try {
      if (shape.definition.log === 'changes_only') return shape.setRows(undefined)
      const { snapshot, messages } = await readRows(this.#options.pool, shape, arrived)
      shape.setRows({ json: messages.join(','), snapshot })
    } catch (thrown) {
      shape.fail(requestErrorFor(thrown, 'where'))
      this.#remove(shape)
    }
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
    const types = await paramTypes(options, table, definition.where, clause)
    const params = await canonicalParams(pool.query, types, definition.params)
    const evaluator = createEvaluator(evaluationPool.query, table, clause, types)
    return { table, columns, clause, evaluator, params }
  } catch (thrown) {
    throw requestErrorFor(thrown, 'where')
  }
}

/** Remembered, as many shapes differ in their parameters only. */
async function paramTypes(
  { pool, described }: ShapesOptions,
  table: TableFacts,
  where: string,
  clause: Clause,
): Promise<string[]> {
  const key = `${table.signature} ${where}`
  const known = described.get(key)
  if (known) return known
  const types = await describeParams(pool, table, clause)
  if (described.size >= MAX_DESCRIBED) described.clear()
  described.set(key, types)
  return types
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
export function requestErrorFor(thrown: unknown, field: string): RequestError {
  if (thrown instanceof RequestError) return thrown
  const code = systemCode(thrown)
  // Class 22: data exception, 42: syntax error or access rule, 0A: feature not supported.
  if (code !== undefined && /^(22|42|0A)...$/.test(code)) {
    return invalidRequest(field, (thrown as Error).message)
  }
  return notReady('The database is not reachable')
}
