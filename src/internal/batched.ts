/**
 * Work of one kind that several ask for at about the same time, done together: one statement instead of many.
 *
 * It costs nothing when idle: what is asked for alone is done alone and at once. What is asked for while something
 * is under way waits for that to end, but no longer than `waitMs`: one that waits for a lock holds up nobody.
 * Whatever cannot be done together is done alone, so that nobody's failure is another's. Only when the database was
 * away do all of a batch learn so: what was written is then unknown.
 */
import type { Database } from './database.js'
import { isUnreachable } from './database-errors.js'

export interface BatchedOptions<Item, Result> {
  /** A batch is not larger. @default 20 */
  most?: number
  /** How long an item waits for what is under way, in ms. @default 20 */
  waitMs?: number
  /** One result an item, in their order; undefined for one that has to be done alone. */
  together(items: readonly Item[]): Promise<(Result | undefined)[]>
  alone(item: Item): Promise<Result>
}

interface Waiting<Item, Result> {
  item: Item
  resolve(result: Result | PromiseLike<Result>): void
  reject(error: unknown): void
}

const MOST = 20
const WAIT_MS = 20

export function batched<Item, Result>(
  options: BatchedOptions<Item, Result>,
): (item: Item) => Promise<Result> {
  const batches = new Batches(options)
  return (item) => batches.add(item)
}

class Batches<Item, Result> {
  readonly #options: BatchedOptions<Item, Result>
  readonly #waiting: Waiting<Item, Result>[] = []
  #underWay = 0
  #flushing = false
  #patience: NodeJS.Timeout | undefined

  constructor(options: BatchedOptions<Item, Result>) {
    this.#options = options
  }

  add(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject })
      this.#soon()
    })
  }

  #soon(): void {
    if (this.#waiting.length === 0 || this.#flushing) return
    if (this.#underWay > 0) {
      this.#patience ??= setTimeout(() => this.#flush(), this.#options.waitMs ?? WAIT_MS)
      return
    }
    // After the microtasks: what one answer has set off asks in the same turn of the event loop.
    this.#flushing = true
    setImmediate(() => this.#flush())
  }

  #flush(): void {
    this.#flushing = false
    clearTimeout(this.#patience)
    this.#patience = undefined
    while (this.#waiting.length > 0) {
      this.#underWay += 1
      void this.#run(this.#waiting.splice(0, this.#options.most ?? MOST)).finally(() => {
        this.#underWay -= 1
        this.#soon()
      })
    }
  }

  async #run(batch: Waiting<Item, Result>[]): Promise<void> {
    const [first] = batch
    if (first && batch.length === 1) return this.#runAlone(first)
    try {
      const results = await this.#options.together(batch.map(({ item }) => item))
      for (const [place, one] of batch.entries()) {
        const result = results[place]
        if (result === undefined) void this.#runAlone(one)
        else one.resolve(result)
      }
    } catch (error) {
      for (const one of batch) {
        if (isUnreachable(error)) one.reject(error)
        else void this.#runAlone(one)
      }
    }
  }

  #runAlone({ item, resolve, reject }: Waiting<Item, Result>): Promise<void> {
    return this.#options.alone(item).then(resolve, reject)
  }
}

/** One for each database. */
export function batchedPerDatabase<Item, Result>(
  optionsFor: (db: Database) => BatchedOptions<Item, Result>,
): (db: Database, item: Item) => Promise<Result> {
  const known = new WeakMap<Database, (item: Item) => Promise<Result>>()
  return (db, item) => {
    let run = known.get(db)
    if (!run) known.set(db, (run = batched(optionsFor(db))))
    return run(item)
  }
}
