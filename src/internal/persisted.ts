/** Writes to collections are confirmed by their transaction, which is no promise: `await insert()` waits for nothing. */

/** What `collection.insert()` and its neighbours return. */
export interface Persisting {
  readonly isPersisted: { readonly promise: Promise<unknown> }
}

/**
 * Resolves when the write is confirmed: a collection's transaction, a promise (of one), or anything else, at once.
 *
 * @throws what refused the write.
 */
export async function persisted(written: unknown): Promise<void> {
  const result = await written
  if (typeof result !== 'object' || result === null || !('isPersisted' in result)) return
  await (result as Persisting).isPersisted.promise
}
