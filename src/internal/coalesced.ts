/** Calls of one moment as one: what is asked for before the microtask runs goes into the same batch. */

/**
 * @param most A batch is not larger.
 * @param batch Answers every item, in their order; what it throws, each of them throws.
 */
export function coalesced<Item, Result>(
  most: number,
  batch: (items: Item[]) => Promise<Result[]>,
): (item: Item) => Promise<Result> {
  const waiting: {
    item: Item
    resolve: (result: Result) => void
    reject: (error: unknown) => void
  }[] = []
  const flush = () => {
    const taken = waiting.splice(0, most)
    if (waiting.length > 0) queueMicrotask(flush)
    batch(taken.map(({ item }) => item)).then(
      (results) => taken.forEach(({ resolve }, index) => resolve(results[index]!)),
      (error: unknown) => taken.forEach(({ reject }) => reject(error)),
    )
  }
  return (item) =>
    new Promise((resolve, reject) => {
      if (waiting.push({ item, resolve, reject }) === 1) queueMicrotask(flush)
    })
}
