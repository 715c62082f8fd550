/** A storage that outlives a session object, as localStorage outlives a page. */
import type { OutboxStorage } from '../../src/client.js'

export class MemoryStorage implements OutboxStorage {
  readonly #items = new Map<string, string>()

  get length(): number {
    return this.#items.size
  }

  key(place: number): string | null {
    return [...this.#items.keys()][place] ?? null
  }

  getItem(key: string): string | null {
    return this.#items.get(key) ?? null
  }

  setItem(key: string, value: string): void {
    this.#items.set(key, value)
  }

  removeItem(key: string): void {
    this.#items.delete(key)
  }

  get text(): string {
    return [...this.#items.values()].join()
  }
}
