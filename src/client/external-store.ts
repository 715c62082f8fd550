/** State that changes outside of a framework: what React's `useSyncExternalStore` takes, and any other. */

export interface ExternalStore<State> {
  /** The same object until it changes. */
  get(): State
  /** @returns the function that ends it. */
  subscribe(listener: () => void): () => void
}

/** Functions are bound: they may be passed on alone. */
export class StateStore<State extends object> implements ExternalStore<State> {
  #state: State
  readonly #listeners = new Set<() => void>()

  constructor(state: State) {
    this.#state = state
  }

  readonly get = (): State => this.#state

  readonly subscribe = (listener: () => void): (() => void) => {
    // An object of its own, so that one function may listen twice.
    const entry = () => listener()
    this.#listeners.add(entry)
    return () => void this.#listeners.delete(entry)
  }

  get listened(): boolean {
    return this.#listeners.size > 0
  }

  /** Tells nobody where nothing changed. */
  set(state: State): void {
    if (sameFields(this.#state, state)) return
    this.#state = state
    for (const listener of [...this.#listeners]) listener()
  }
}

function sameFields(a: object, b: object): boolean {
  const keys = Object.keys(a)
  if (keys.length !== Object.keys(b).length) return false
  return keys.every((key) => Object.is(a[key as never], b[key as never]))
}
