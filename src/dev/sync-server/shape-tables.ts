/**
 * The shapes that are followed, by table and clause, and what a batch of transactions does to them:
 * first everything is evaluated, then in one synchronous step every shape gets its messages, and only
 * then those who wait are woken. So a transaction is there whole, in all shapes or in none.
 *
 * A table that was truncated, or whose rows come in another structure than its shapes know, ends them.
 */
import { fits } from './change-messages.js'
import type { Evaluator } from './evaluate.js'
import type { RowChange, Transaction } from './replication.js'
import type { Hit, Shape } from './shape.js'
import { createShapeGroup } from './shape-group.js'
import type { ShapeGroup, ShapesHit } from './shape-group.js'
import type { TableFacts } from './table-facts.js'

export interface ShapeTables {
  add(shape: Shape, evaluator: Evaluator | undefined, params: readonly string[]): void
  remove(shape: Shape): void
  /** Shapes that know this table by another structure. */
  outdated(table: TableFacts): Shape[]
  readonly facts: readonly TableFacts[]
  /** Ends the shapes of these tables. */
  lose(lost: readonly TableFacts[]): void
  apply(transactions: readonly Transaction[]): Promise<void>
}

export interface ShapeTablesOptions {
  /** Ends these shapes; each is removed here by it. */
  rotate(shapes: Iterable<Shape>, why: string): void
  /** Every shape has this transaction now. */
  onApplied(transaction: Transaction): void
  /** These got messages. Called before they are woken. */
  onGrown(shapes: ReadonlySet<Shape>): void
}

interface FollowedTable {
  facts: TableFacts
  groups: Map<string, ShapeGroup>
}

interface Place {
  change: RowChange
  transaction: Transaction
}

export function createShapeTables(options: ShapeTablesOptions): ShapeTables {
  return new FollowedTables(options)
}

class FollowedTables implements ShapeTables {
  readonly #tables = new Map<number, FollowedTable>()
  readonly #options: ShapeTablesOptions

  constructor(options: ShapeTablesOptions) {
    this.#options = options
  }

  add(shape: Shape, evaluator: Evaluator | undefined, params: readonly string[]): void {
    const { table: facts } = shape.view
    const table = this.#tables.get(facts.oid) ?? { facts, groups: new Map() }
    this.#tables.set(facts.oid, table)
    const where = shape.definition.where ?? ''
    const group = table.groups.get(where) ?? createShapeGroup(facts, shape.clause, evaluator)
    table.groups.set(where, group)
    group.add(shape, params)
  }

  remove(shape: Shape): void {
    const table = this.#tables.get(shape.view.table.oid)
    const where = shape.definition.where ?? ''
    const group = table?.groups.get(where)
    if (table === undefined || group === undefined) return
    group.remove(shape)
    if (group.size === 0) table.groups.delete(where)
    if (table.groups.size === 0) this.#tables.delete(table.facts.oid)
  }

  outdated(facts: TableFacts): Shape[] {
    const same = (one: TableFacts) => one.schema === facts.schema && one.name === facts.name
    return [...this.#tables.values()]
      .filter((table) => table.facts.oid === facts.oid || same(table.facts))
      .filter((table) => table.facts.signature !== facts.signature)
      .flatMap(shapesOf)
  }

  get facts(): readonly TableFacts[] {
    return [...this.#tables.values()].map((table) => table.facts)
  }

  lose(lost: readonly TableFacts[]): void {
    for (const facts of lost) {
      const table = this.#tables.get(facts.oid)
      if (table?.facts === facts) this.#options.rotate(shapesOf(table), 'the table is gone')
    }
  }

  async apply(transactions: readonly Transaction[]): Promise<void> {
    const rotating = this.#tablesToRotate(transactions)
    const perTable = placesByTable(transactions, (oid) => {
      const table = this.#tables.get(oid)
      return table && !rotating.has(table) ? table : undefined
    })
    const questions = [...perTable].flatMap(([table, places]) =>
      [...table.groups.values()].map(async (group) => ({
        places,
        answer: await group.hits(places.map(({ change }) => change)),
      })),
    )
    const answers = await Promise.all(questions)
    // From here on synchronous: nobody sees half of it.
    for (const [table, why] of rotating) this.#options.rotate(shapesOf(table), why)
    const grown = new Set<Shape>()
    for (const { places, answer } of answers) {
      this.#options.rotate(answer.failed, 'their where clause failed for a changed row')
      for (const hit of answer.found) appendHits(hit, places, grown)
    }
    for (const transaction of transactions) this.#options.onApplied(transaction)
    this.#options.onGrown(grown)
    for (const shape of grown) shape.wake()
  }

  #tablesToRotate(transactions: readonly Transaction[]): Map<FollowedTable, string> {
    const found = new Map<FollowedTable, string>()
    for (const { changes, truncated } of transactions) {
      for (const oid of truncated) {
        const table = this.#tables.get(oid)
        if (table) found.set(table, 'the table was truncated')
      }
      for (const { relation } of changes) {
        const table = this.#tables.get(relation.oid)
        if (table && !fits(table.facts, relation)) found.set(table, 'the table was changed')
      }
    }
    return found
  }
}

function shapesOf(table: FollowedTable): Shape[] {
  return [...table.groups.values()].flatMap((group) => [...group.shapes])
}

function placesByTable(
  transactions: readonly Transaction[],
  tableOf: (oid: number) => FollowedTable | undefined,
): Map<FollowedTable, Place[]> {
  const places = new Map<FollowedTable, Place[]>()
  for (const transaction of transactions) {
    for (const change of transaction.changes) {
      const table = tableOf(change.relation.oid)
      if (table === undefined) continue
      const known = places.get(table)
      if (known) known.push({ change, transaction })
      else places.set(table, [{ change, transaction }])
    }
  }
  return places
}

/** Gives each shape its hits, a transaction at a time; those that got messages go to `grown`. */
function appendHits(
  { shapes, hits }: ShapesHit,
  places: readonly Place[],
  grown: Set<Shape>,
): void {
  const perTransaction = new Map<Transaction, Hit[]>()
  for (const [at, membership] of hits) {
    const { transaction, change } = places[at]!
    const known = perTransaction.get(transaction)
    if (known) known.push({ change, membership })
    else perTransaction.set(transaction, [{ change, membership }])
  }
  for (const shape of shapes) {
    for (const [transaction, its] of perTransaction) {
      if (shape.append(transaction, its)) grown.add(shape)
    }
  }
}
