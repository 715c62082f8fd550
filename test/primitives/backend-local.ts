/** Local-only collections: one device, every write confirmed at once. The claim is a set of this process. */
import { createCollection, localOnlyCollectionOptions, type Collection } from '@tanstack/db'
import { next, REFUSED, TABLES, type Backend, type Device, type Tables } from './backend-world.js'

export async function localBackend(): Promise<Backend> {
  const collections = Object.fromEntries(
    TABLES.map((table) => [table, localCollection(table)]),
  ) as unknown as Device['collections']
  const device = handlerDevice(collections)
  const claimed = new Set<string>()
  return {
    open: async () => device,
    tellsUnconfirmed: false,
    // It is the backend: there is nothing to hold, and a row is synced while it is still being inserted.
    hold: () => () => {},
    claim: async ({ id }) => !claimed.has(id) && claimed.add(id) && { attempt: 1 },
  }
}

function localCollection(table: keyof Tables) {
  return createCollection(
    localOnlyCollectionOptions<{ id: string }, string>({
      id: next(table),
      getKey: (row) => row.id,
      onInsert: ({ transaction }) =>
        transaction.mutations.some(({ modified }) => modified.id === REFUSED)
          ? Promise.reject(new Error('the backend refuses this row'))
          : Promise.resolve(),
    }),
  )
}

/** A device whose collections write by themselves. */
export function handlerDevice(collections: Device['collections']): Device {
  const of = (table: keyof Tables) => collections[table] as unknown as Collection<{ id: string }>
  return {
    collections,
    async insert(table, row) {
      await of(table).insert(row).isPersisted.promise
    },
    async update(table, id, changes) {
      const change = of(table).update(id, (draft) => void Object.assign(draft, changes))
      await change.isPersisted.promise
    },
    insertOption: () => ({}),
    cancelOption: () => ({}),
  }
}
