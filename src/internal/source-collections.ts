/**
 * What the primitives need of a host's TanStack DB collections beyond their public face: are they of our copy
 * of the library, which ones does a query read, and how does a failed one start again.
 *
 * Two copies of @tanstack/db in one process fail without a sound (a transaction of the one does not see the
 * other's collections), so every primitive that is given a collection looks first.
 */
import { CollectionImpl, Query, type EffectQueryInput, type Context } from '@tanstack/db'
import { AiDbError } from '../errors.js'

/** What is used of a collection to keep it alive. */
export interface SourceCollection {
  readonly id: string
  readonly status: string
  cleanup(): Promise<void>
}

/** Throws INVALID_OPTION unless `collection` was made by the @tanstack/db that this library loads. */
export function requireOwnCopy(what: string, field: string, collection: unknown): void {
  if (collection instanceof CollectionImpl) return
  const looksLikeOne =
    typeof collection === 'object' && collection !== null && 'subscribeChanges' in collection
  throw looksLikeOne
    ? twoCopies(what, field)
    : new AiDbError('INVALID_OPTION', `${what}: ${field} must be a TanStack DB collection.`, {
        field,
      })
}

const QUERY_ERRORS = ['InvalidSourceError', 'InvalidSourceTypeError', 'InvalidWhereExpressionError']

/**
 * The collections a query reads, subqueries and joins included.
 *
 * @throws AiDbError INVALID_OPTION when the query or a collection of it is of another copy of @tanstack/db.
 */
export function sourcesOf<TContext extends Context>(
  what: string,
  query: EffectQueryInput<TContext>,
): SourceCollection[] {
  let tree: unknown
  try {
    const built = typeof query === 'function' ? query(new Query()) : query
    tree = (built as unknown as { _getQuery?: () => unknown })._getQuery?.()
  } catch (error) {
    if (!(error instanceof Error)) throw error
    if (!QUERY_ERRORS.includes(error.name) && !QUERY_ERRORS.includes(error.constructor.name))
      throw error
    throw twoCopies(what, 'query', error)
  }
  const found = new Set<SourceCollection>()
  collect(tree, found, new Set())
  for (const collection of found) requireOwnCopy(what, 'query', collection)
  return [...found]
}

/** Walks a query's tree for what it is `from`; collections themselves are leaves. */
function collect(node: unknown, found: Set<SourceCollection>, seen: Set<unknown>): void {
  if (typeof node !== 'object' || node === null || seen.has(node)) return
  seen.add(node)
  const { type, collection } = node as { type?: unknown; collection?: unknown }
  if (type === 'collectionRef') {
    found.add(collection as SourceCollection)
    return
  }
  for (const child of Object.values(node)) collect(child, found, seen)
}

const restarts = new WeakMap<SourceCollection, Promise<void>>()

/**
 * A collection in error is emptied, so that the next subscription starts its sync again. One in any other
 * state is left alone. Called by several at once, it happens once.
 */
export function clearFailedSource(collection: SourceCollection): Promise<void> {
  const running = restarts.get(collection)
  if (running) return running
  if (collection.status !== 'error') return Promise.resolve()
  const clearing = collection
    .cleanup()
    // A source whose cleaning up fails is tried again with the next restart.
    .catch(() => undefined)
    .finally(() => restarts.delete(collection))
  restarts.set(collection, clearing)
  return clearing
}

function twoCopies(what: string, field: string, cause?: Error): AiDbError {
  return new AiDbError(
    'INVALID_OPTION',
    `${what}: ${field} belongs to another copy of @tanstack/db than this library loads (or is no collection). ` +
      'Two copies lose writes in silence. Make it one: `npm ls @tanstack/db` shows them, "overrides" in ' +
      'package.json (or resolve.dedupe in a bundler) joins them.',
    { field, ...(cause ? { cause } : {}) },
  )
}
