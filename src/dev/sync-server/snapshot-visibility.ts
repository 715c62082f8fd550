/**
 * A Postgres snapshot, and whether a transaction is in it. Replication tells 32 bits of a transaction
 * id, a snapshot has 64: the nearer of the possible ones is meant.
 */

export interface Snapshot {
  xmin: bigint
  xmax: bigint
  running: ReadonlySet<bigint>
}

/** From the text of `pg_current_snapshot()`: `xmin:xmax:xip,xip`. */
export function parseSnapshot(text: string): Snapshot {
  const [xmin, xmax, running] = text.split(':') as [string, string, string]
  const ids = running === '' ? [] : running.split(',').map(BigInt)
  return { xmin: BigInt(xmin), xmax: BigInt(xmax), running: new Set(ids) }
}

export function isVisible(snapshot: Snapshot, xid: number): boolean {
  const full = snapshot.xmax + BigInt.asIntN(32, BigInt(xid) - snapshot.xmax)
  if (full < snapshot.xmin) return true
  return full < snapshot.xmax && !snapshot.running.has(full)
}

/** As the control messages and the metadata of subsets carry it. */
export function snapshotHeaders({ xmin, xmax, running }: Snapshot) {
  return { xmin: `${xmin}`, xmax: `${xmax}`, xip_list: [...running].map(String) }
}
