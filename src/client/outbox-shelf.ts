/**
 * Where writes lie while they wait, so that a reload does not lose them: one storage item per open
 * session object, rewritten whole. Whoever comes next takes over what closed tabs have left.
 *
 * A living tab holds a Web Lock, so its entries are left alone. Where there are no locks (old
 * browsers, Node) entries are taken over from anybody: a write may then be sent twice, which its id
 * makes harmless.
 *
 * Not promised: more than the storage takes. When it is full, the entries stay in memory only.
 */

/** `localStorage`, or anything like it. */
export type OutboxStorage = Pick<Storage, 'getItem' | 'setItem' | 'removeItem' | 'key' | 'length'>

export interface ShelvedWrite<Write> {
  /** When it was made, in ms since 1970: the order of entries of several tabs. */
  at: number
  write: Write
}

const PREFIX = 'electric-ai-db:outbox:'

export class OutboxShelf<Write> {
  readonly #storage: OutboxStorage | undefined
  readonly #scope: string
  readonly #own: string
  readonly #locks = browserLocks()
  #leave: () => void = () => undefined

  /** @param scope Whose writes: they never go to another url or session. */
  constructor(storage: OutboxStorage | undefined, scope: string) {
    this.#storage = storage
    this.#scope = `${PREFIX}${scope}:`
    this.#own = this.#scope + crypto.randomUUID()
    if (!storage || !this.#locks) return
    const left = new Promise<void>((resolve) => {
      this.#leave = resolve
    })
    void this.#locks.request(this.#own, () => left).catch(() => undefined)
  }

  /** The entries there are now, in order. */
  put(entries: readonly ShelvedWrite<Write>[]): void {
    try {
      if (entries.length === 0) this.#storage?.removeItem(this.#own)
      else this.#storage?.setItem(this.#own, JSON.stringify(entries))
    } catch {
      // Full, or forbidden: what is in memory is sent all the same.
    }
  }

  /** Hands over what closed tabs have left. `adopt` puts it on the own shelf before it is taken off theirs. */
  async takeOver(adopt: (entries: ShelvedWrite<Write>[]) => void): Promise<void> {
    for (const key of this.#othersKeys()) {
      const take = () => {
        const entries = this.#entriesOf(key)
        if (entries.length > 0) adopt(entries)
        this.#storage?.removeItem(key)
      }
      if (!this.#locks) take()
      else await this.#locks.request(key, { ifAvailable: true }, (lock) => lock && take())
    }
  }

  /** From now on others may take what is left here. */
  close(): void {
    this.#leave()
  }

  #othersKeys(): string[] {
    const keys: string[] = []
    try {
      for (let place = 0; place < (this.#storage?.length ?? 0); place += 1) {
        const key = this.#storage?.key(place)
        if (key?.startsWith(this.#scope) && key !== this.#own) keys.push(key)
      }
    } catch {
      // A storage that may not be read holds nothing for us.
    }
    return keys
  }

  #entriesOf(key: string): ShelvedWrite<Write>[] {
    try {
      const entries: unknown = JSON.parse(this.#storage?.getItem(key) ?? '[]')
      return Array.isArray(entries) ? (entries as ShelvedWrite<Write>[]) : []
    } catch {
      return []
    }
  }
}

/** `localStorage` where there is one that may be used. */
export function defaultStorage(): OutboxStorage | undefined {
  try {
    return typeof window === 'undefined' ? undefined : window.localStorage
  } catch {
    return undefined
  }
}

function browserLocks(): LockManager | undefined {
  return typeof navigator === 'undefined' ? undefined : navigator.locks
}
