/**
 * The shapes of one table with one clause: what they differ in is parameters, columns and the form of
 * their messages. Shapes with equal parameters are in and out together.
 *
 * Where the clause has a conjunct `column = $n` over a type whose values are equal when their texts
 * are, only the parameters that a changed row names can concern it, and only these go to Postgres:
 * of five hundred sessions' shapes one is asked about, not all.
 */
import type { Membership } from './change-messages.js'
import type { Evaluator } from './evaluate.js'
import type { RowChange } from './replication.js'
import type { Shape } from './shape.js'
import type { TableFacts } from './table-facts.js'
import type { Clause } from './where-clause.js'

export interface ShapesHit {
  shapes: ReadonlySet<Shape>
  /** By the index of the change, ascending. */
  hits: ReadonlyMap<number, Membership>
}

export interface ShapeGroup {
  readonly size: number
  readonly shapes: Iterable<Shape>
  add(shape: Shape, params: readonly string[]): void
  remove(shape: Shape): void
  hits(changes: readonly RowChange[]): Promise<{ found: ShapesHit[]; failed: Shape[] }>
}

interface ParamSet {
  params: readonly string[]
  shapes: Set<Shape>
}

/** @param evaluator Absent for shapes without a clause, which have every row. */
export function createShapeGroup(
  table: TableFacts,
  clause: Clause | undefined,
  evaluator: Evaluator | undefined,
): ShapeGroup {
  return new ParamsGroup(table, clause, evaluator)
}

class ParamsGroup implements ShapeGroup {
  readonly #evaluator: Evaluator | undefined
  readonly #equality: Equality | undefined
  readonly #sets = new Map<string, ParamSet>()
  readonly #keyOf = new Map<Shape, string>()
  readonly #byValue = new Map<string, Set<ParamSet>>()

  constructor(table: TableFacts, clause: Clause | undefined, evaluator: Evaluator | undefined) {
    this.#evaluator = evaluator
    if (clause && evaluator) this.#equality = findEquality(table, clause, evaluator.paramTypes)
  }

  get size(): number {
    return this.#keyOf.size
  }

  get shapes(): Iterable<Shape> {
    return this.#keyOf.keys()
  }

  add(shape: Shape, params: readonly string[]): void {
    const key = JSON.stringify(params)
    let set = this.#sets.get(key)
    if (set === undefined) {
      set = { params, shapes: new Set() }
      this.#sets.set(key, set)
      if (this.#equality) addTo(this.#byValue, params[this.#equality.param - 1]!, set)
    }
    set.shapes.add(shape)
    this.#keyOf.set(shape, key)
  }

  remove(shape: Shape): void {
    const key = this.#keyOf.get(shape)
    const set = key === undefined ? undefined : this.#sets.get(key)
    if (set === undefined) return
    this.#keyOf.delete(shape)
    set.shapes.delete(shape)
    if (set.shapes.size > 0) return
    this.#sets.delete(key!)
    if (this.#equality) removeFrom(this.#byValue, set.params[this.#equality.param - 1]!, set)
  }

  async hits(changes: readonly RowChange[]): Promise<{ found: ShapesHit[]; failed: Shape[] }> {
    const asked = this.#candidates(changes)
    if (asked.length === 0) return { found: [], failed: [] }
    if (this.#evaluator === undefined) {
      return { found: [{ shapes: asked[0]!.shapes, hits: allIn(changes) }], failed: [] }
    }
    try {
      return { found: await ask(this.#evaluator, changes, asked), failed: [] }
    } catch {
      return askOneByOne(this.#evaluator, changes, asked)
    }
  }

  #candidates(changes: readonly RowChange[]): ParamSet[] {
    if (this.#equality === undefined) return [...this.#sets.values()]
    const found = new Set<ParamSet>()
    for (const { old, new: now } of changes) {
      for (const row of [old, now]) {
        const value = row?.[this.#equality.column]
        if (value != null) for (const set of this.#byValue.get(value) ?? []) found.add(set)
      }
    }
    return [...found]
  }
}

async function ask(
  evaluator: Evaluator,
  changes: readonly RowChange[],
  sets: readonly ParamSet[],
): Promise<ShapesHit[]> {
  const params = sets.map((set) => set.params)
  const found = await evaluator.evaluate(changes, params)
  return [...found].map(([at, hits]) => ({ shapes: sets[at]!.shapes, hits }))
}

/** A clause can fail for some parameters only (a division by one of them): the others go on. */
async function askOneByOne(
  evaluator: Evaluator,
  changes: readonly RowChange[],
  sets: readonly ParamSet[],
) {
  const found: ShapesHit[] = []
  const failed: Shape[] = []
  for (const set of sets) {
    await ask(evaluator, changes, [set]).then(
      (hits) => found.push(...hits),
      () => failed.push(...set.shapes),
    )
  }
  return { found, failed }
}

function allIn(changes: readonly RowChange[]): Map<number, Membership> {
  return new Map(changes.map(({ old, new: now }, at) => [at, { was: !!old, is: !!now }]))
}

interface Equality {
  column: string
  param: number
}

/** `column = $n`, alone or joined to the rest by `and`. */
function findEquality(
  table: TableFacts,
  { tokens }: Clause,
  paramTypes: readonly string[],
): Equality | undefined {
  const sql = (at: number) => {
    const token = tokens[at]
    return token && 'sql' in token ? token.sql : undefined
  }
  // With these words an `and` around the comparison need not be a conjunction of the whole.
  if (tokens.some((_, at) => ['or', 'between'].includes(sql(at) ?? ''))) return undefined
  const ends = (at: number) => at < 0 || at >= tokens.length || sql(at) === 'and'
  let depth = 0
  for (const [at, token] of tokens.entries()) {
    if ('sql' in token) depth += token.sql === '(' ? 1 : token.sql === ')' ? -1 : 0
    if (depth > 0 || sql(at) !== '=' || !ends(at - 2) || !ends(at + 2)) continue
    const [left, right] = [tokens[at - 1]!, tokens[at + 1]]
    if (!('column' in left) || right === undefined || !('param' in right)) continue
    const column = table.columns.find(({ name }) => name === left.column)
    // A parameter of another type ('numeric' beside an integer) may equal it in another form.
    if (!column?.equalAsText || column.type !== paramTypes[right.param - 1]) continue
    return { column: column.name, param: right.param }
  }
  return undefined
}

function addTo<V>(map: Map<string, Set<V>>, key: string, value: V): void {
  const values = map.get(key)
  if (values === undefined) map.set(key, new Set([value]))
  else values.add(value)
}

function removeFrom<V>(map: Map<string, Set<V>>, key: string, value: V): void {
  const values = map.get(key)
  values?.delete(value)
  if (values?.size === 0) map.delete(key)
}
