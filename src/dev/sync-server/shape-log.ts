/**
 * What happened to a shape, one entry a transaction, in commit order, within a byte limit. An offset
 * names a transaction (`<lsn>_<op>`, of which the lsn says all, as transactions are told whole), so a
 * reader is anywhere between two entries. One who needs an entry that was dropped is behind, and
 * starts over.
 */

export interface LogEntry {
  lsn: bigint
  xid: number
  /** Each as JSON. */
  messages: readonly string[]
  /** Of all messages. */
  chars: number
}

export interface ShapeLog {
  append(entry: LogEntry): void
  /** The entries after `lsn`; undefined when some of them are gone. */
  after(lsn: bigint): readonly LogEntry[] | undefined
  /** Forgets entries that hold something the reader has otherwise. */
  remove(has: (entry: LogEntry) => boolean): void
  /** Drops the oldest until half of `limitBytes` is left, the newest never. True if it dropped any. */
  compact(limitBytes: number): boolean
  /** Everything up to here is gone. */
  readonly start: bigint
  readonly bytes: number
}

export function createShapeLog(start: bigint): ShapeLog {
  let entries: LogEntry[] = []
  let bytes = 0
  let gone = start
  return {
    get start() {
      return gone
    },
    get bytes() {
      return bytes
    },
    append(entry) {
      entries.push(entry)
      bytes += entry.chars
    },
    after(lsn) {
      return lsn < gone ? undefined : entries.slice(firstAfter(entries, lsn))
    },
    remove(has) {
      entries = entries.filter((entry) => !has(entry))
      bytes = entries.reduce((sum, entry) => sum + entry.chars, 0)
    },
    compact(limitBytes) {
      if (bytes <= limitBytes) return false
      let drop = 0
      while (drop < entries.length - 1 && bytes > limitBytes / 2) {
        bytes -= entries[drop]!.chars
        gone = entries[drop]!.lsn
        drop += 1
      }
      entries = entries.slice(drop)
      return true
    },
  }
}

function firstAfter(entries: readonly LogEntry[], lsn: bigint): number {
  let low = 0
  let high = entries.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (entries[middle]!.lsn > lsn) high = middle
    else low = middle + 1
  }
  return low
}
