/** A TanStack DB collection over a shape with a live query on it, as an app has them. */
import { createCollection, createLiveQueryCollection, isNull, not, or } from '@tanstack/db'
import { electricCollectionOptions } from '@tanstack/electric-db-collection'

type Value = Record<string, unknown>

export interface CollectionFollower {
  /** What the live query shows. */
  rows(): Value[]
  readonly objections: string[]
  stop(): Promise<void>
}

export function followCollection(
  electricUrl: string,
  params: { table: string } & Record<string, unknown>,
  syncMode: 'eager' | 'on-demand' | 'progressive',
  getKey: (row: Value) => string,
): CollectionFollower {
  const objections: string[] = []
  const collection = createCollection(
    electricCollectionOptions<Value & { n?: number }>({
      getKey,
      syncMode,
      shapeOptions: {
        url: `${electricUrl}/v1/shape`,
        params: params as { table: string },
        onError: (error) => void objections.push(String(error)),
      },
    }),
  )
  // Always true, but something a subset has to be asked for.
  const live = createLiveQueryCollection((q) =>
    q.from({ row: collection }).where(({ row }) => or(isNull(row.n), not(isNull(row.n)))),
  )
  live.startSyncImmediate()
  const plain = (row: Value) =>
    Object.fromEntries(Object.entries(row).filter(([name]) => !name.startsWith('$')))
  return {
    rows: () => live.toArray.map((row) => plain(row as Value)),
    objections,
    async stop() {
      await live.cleanup()
      await collection.cleanup()
    },
  }
}
