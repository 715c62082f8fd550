/** Is replication running, and which time: shapes opened under one session know nothing of another. */
import { notReady } from './request-error.js'

export interface Session {
  /** The number of the running session; waits a while for one. */
  current(): Promise<number>
  begin(): void
  end(why: string): void
  isActive(): boolean
  /** Why the first session did not start; undefined once it did, or when it takes longer than that. */
  firstProblem(patienceMs: number): Promise<string | undefined>
}

const PATIENCE_MS = 10_000

export function createSession(): Session {
  let number = 0
  let active = false
  let listeners: ((problem?: string) => void)[] = []
  const tell = (problem?: string) => {
    const told = listeners
    listeners = []
    for (const listener of told) listener(problem)
  }
  /** The next beginning or end, or the lapse of time. */
  const next = (ms: number) =>
    new Promise<string | undefined>((resolve) => {
      const timer = setTimeout(() => resolve(undefined), ms)
      listeners.push((problem) => {
        clearTimeout(timer)
        resolve(problem)
      })
    })
  return {
    async current() {
      const deadline = performance.now() + PATIENCE_MS
      while (!active) {
        const left = deadline - performance.now()
        if (left <= 0) throw notReady('Replication is not running')
        await next(left)
      }
      return number
    },
    begin() {
      active = true
      number += 1
      tell()
    },
    end(why) {
      active = false
      tell(why)
    },
    isActive: () => active,
    firstProblem: (patienceMs) => (active ? Promise.resolve(undefined) : next(patienceMs)),
  }
}
