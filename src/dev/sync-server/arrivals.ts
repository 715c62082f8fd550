/**
 * The transactions that arrived lately: how far the log goes, how far it went a moment ago, and which
 * ones a snapshot must contain.
 */

export interface Arrivals {
  /** The lsn of the last transaction that every shape has. */
  readonly tail: bigint
  /** Of a replication session: it tells what commits after this. */
  startAt(lsn: bigint): void
  add(transaction: { xid: number; lsn: bigint }): void
  /** The tail as it was so many milliseconds ago. */
  tailBefore(ms: number): bigint
  xids(): number[]
}

/** A commit becomes visible within milliseconds of its arrival; this is many times that. */
const KEPT_MS = 10_000
const KEPT = 5_000

export function createArrivals(): Arrivals {
  let tail = 0n
  let recent: { xid: number; lsn: bigint; at: number; before: bigint }[] = []
  return {
    get tail() {
      return tail
    },
    startAt(lsn) {
      if (lsn > tail) tail = lsn
    },
    add({ xid, lsn }) {
      recent.push({ xid, lsn, at: performance.now(), before: tail })
      tail = lsn
      if (recent.length > 2 * KEPT) recent = recent.slice(-KEPT)
    },
    tailBefore(ms) {
      const since = performance.now() - ms
      return recent.find(({ at }) => at > since)?.before ?? tail
    },
    xids() {
      const since = performance.now() - KEPT_MS
      recent = recent.filter(({ at }) => at > since)
      return recent.map(({ xid }) => xid)
    },
  }
}
