/**
 * Single rows of a collection, watched: one subscription a collection, however many rows are waited for.
 *
 * A collection that fails is started again, with back-off, while somebody watches it; watchers are told of
 * what their rows are afterwards. What they are told is a hint: they read the row themselves.
 */
import { delay, jittered } from './abort.js'
import { clearFailedSource, type SourceCollection } from './source-collections.js'

type Key = string | number

/** What is asked of a collection; every TanStack DB collection has it. */
export interface WatchableCollection extends SourceCollection {
  subscribeChanges(
    onChange: (changes: { key: Key }[]) => void,
    options?: { includeInitialState?: boolean },
  ): { unsubscribe(): void }
  on(event: 'status:change', onChange: (event: { status: string }) => void): () => void
}

const watches = new WeakMap<object, CollectionWatch>()

/**
 * Calls `onChange` whenever the row may have changed; also after the collection was started again.
 *
 * @returns what ends the watch.
 */
export function watchRow(
  collection: WatchableCollection,
  key: Key,
  onChange: () => void,
): () => void {
  let watch = watches.get(collection)
  if (!watch) {
    watch = new CollectionWatch(collection)
    watches.set(collection, watch)
  }
  return watch.add(key, onChange)
}

class CollectionWatch {
  readonly #collection: WatchableCollection
  readonly #listeners = new Map<Key, Set<() => void>>()
  #close: (() => void) | undefined
  #restarting = false

  constructor(collection: WatchableCollection) {
    this.#collection = collection
  }

  add(key: Key, onChange: () => void): () => void {
    const listeners = this.#listeners.get(key) ?? new Set()
    this.#listeners.set(key, listeners.add(onChange))
    if (!this.#close) this.#open()
    return () => {
      listeners.delete(onChange)
      if (listeners.size === 0 && this.#listeners.get(key) === listeners)
        this.#listeners.delete(key)
      if (this.#listeners.size === 0) this.#end()
    }
  }

  #open(): void {
    const changed = (changes: { key: Key }[]) => {
      for (const { key } of changes) this.#tell(key)
    }
    // Said outright, it marks every row as known: the deletion of one that was never told of is told.
    const subscription = this.#collection.subscribeChanges(changed, { includeInitialState: false })
    const stopListening = this.#collection.on('status:change', ({ status }) => {
      if (status === 'error' || status === 'cleaned-up') void this.#restart()
      // A row that is gone since is told of by no change.
      if (status === 'ready') this.#tellAll()
    })
    this.#close = () => {
      stopListening()
      subscription.unsubscribe()
    }
    if (this.#collection.status === 'error') void this.#restart()
  }

  #end(): void {
    this.#close?.()
    this.#close = undefined
  }

  #tell(key: Key): void {
    for (const listener of [...(this.#listeners.get(key) ?? [])]) listener()
  }

  async #restart(): Promise<void> {
    if (this.#restarting) return
    this.#restarting = true
    try {
      for (let tries = 0; this.#listeners.size > 0; tries += 1) {
        await delay(jittered(Math.min(100 * 2 ** tries, 10_000)))
        await clearFailedSource(this.#collection)
        if (this.#listeners.size === 0) return
        this.#end()
        try {
          this.#open()
        } catch {
          continue
        }
        if (this.#collection.status !== 'error') break
      }
    } finally {
      this.#restarting = false
    }
    this.#tellAll()
  }

  #tellAll(): void {
    for (const key of [...this.#listeners.keys()]) this.#tell(key)
  }
}
