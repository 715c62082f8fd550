/** Waiting in tests, without sleeping for a guessed time: for a condition to be seen, or for something to be told. */

const PATIENCE_MS = 20_000

/** Looks every few milliseconds until `look` gives something; fails, saying what was missed, after a while. */
export async function pollUntil<T>(
  what: string,
  look: () => Promise<T | undefined | false> | T | undefined | false,
  patienceMs = PATIENCE_MS,
): Promise<T> {
  const deadline = performance.now() + patienceMs
  for (;;) {
    const found = await look()
    if (found !== undefined && found !== false) return found
    if (performance.now() > deadline) throw new Error(`waited ${patienceMs} ms in vain: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

/** What was told so far, and waiting for what is to be told. */
export class EventLog<T> {
  readonly all: T[] = []
  readonly #waiting = new Set<() => void>()
  #failure: Error | undefined

  push(event: T): void {
    this.all.push(event)
    for (const check of this.#waiting) check()
  }

  /** Nothing more will be told: whoever waits fails. */
  close(error: Error): void {
    this.#failure = error
    for (const check of this.#waiting) check()
  }

  of<K extends (T & { type: string })['type']>(type: K): Extract<T, { type: K }>[] {
    return this.all.filter((event) => (event as { type: string }).type === type) as Extract<
      T,
      { type: K }
    >[]
  }

  /** The nth event (from 1) that fits, be it past or to come. */
  until<Found extends T>(
    what: string,
    fits: ((event: T) => event is Found) | ((event: T) => boolean),
    nth = 1,
    patienceMs = PATIENCE_MS,
  ): Promise<Found> {
    return new Promise((resolve, reject) => {
      const finish = (settle: () => void) => {
        clearTimeout(timer)
        this.#waiting.delete(check)
        settle()
      }
      const check = () => {
        const found = this.all.filter(fits as (event: T) => boolean)[nth - 1]
        if (found !== undefined) finish(() => resolve(found as Found))
        else if (this.#failure) finish(() => reject(this.#failure))
      }
      const timer = setTimeout(() => {
        const told = this.all.slice(-12).map((event) => JSON.stringify(event).slice(0, 200))
        const error = new Error(`waited ${patienceMs} ms in vain: ${what}; told: ${told.join(' ')}`)
        finish(() => reject(error))
      }, patienceMs)
      this.#waiting.add(check)
      check()
    })
  }

  /** The nth event of a type. */
  untilType<K extends (T & { type: string })['type']>(
    type: K,
    nth = 1,
    patienceMs = PATIENCE_MS,
  ): Promise<Extract<T, { type: K }>> {
    const fits = (event: T) => (event as { type: string }).type === type
    return this.until(`event '${type}' no. ${nth}`, fits, nth, patienceMs) as Promise<
      Extract<T, { type: K }>
    >
  }
}
