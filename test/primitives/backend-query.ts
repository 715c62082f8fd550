/**
 * TanStack Query over a small HTTP server with rows in memory. Its server counts versions: a write is confirmed by a
 * read that is at least as new, and polling brings what others wrote. The claim is a request that compares and sets.
 */
import { createServer, type IncomingMessage } from 'node:http'
import { json } from 'node:stream/consumers'
import { QueryClient } from '@tanstack/query-core'
import { queryCollectionOptions } from '@tanstack/query-db-collection'
import { createCollection, type Collection } from '@tanstack/db'
import { onTestFinished } from 'vitest'
import { handlerDevice } from './backend-local.js'
import {
  Gate,
  next,
  REFUSED,
  TABLES,
  type Backend,
  type CallRow,
  type Device,
  type Tables,
} from './backend-world.js'

type Row = { id: string }

/** How often a device asks for what others wrote, in ms. */
const POLL_MS = 50

export async function queryBackend(): Promise<Backend> {
  const url = await startRowServer()
  const gate = new Gate()
  return {
    open: async () => {
      const queryClient = new QueryClient()
      const collections = Object.fromEntries(
        TABLES.map((table) => [table, queryCollection(queryClient, url, table, gate)]),
      ) as unknown as Device['collections']
      const all = Object.values(collections) as unknown as Collection<Row, string>[]
      onTestFinished(async () => {
        await Promise.all(all.map((one) => one.cleanup()))
        queryClient.clear()
      })
      await Promise.all(all.map((one) => one.preload()))
      return handlerDevice(collections)
    },
    tellsUnconfirmed: true,
    hold: () => gate.hold(),
    async claim({ id }) {
      const answer = await fetch(`${url}/calls/${id}/claim`, { method: 'POST' })
      return answer.ok && { attempt: 1 }
    },
  }
}

function queryCollection(
  queryClient: QueryClient,
  url: string,
  table: keyof Tables,
  gate: Gate,
): Collection<Row, string> {
  let readVersion = 0
  let reading: Promise<unknown> | undefined
  /** One read at a time: a second one would cancel the first, whose writers then see their rows vanish. */
  const read = () =>
    (reading ??= collection.utils.refetch({ throwOnError: true }).finally(() => {
      reading = undefined
    }))
  const readUpTo = async (version: number) => {
    while (readVersion < version) await read()
  }
  // Not `refetchInterval`: Query ignores it outside of a browser.
  const polling = setInterval(() => void read().catch(() => undefined), POLL_MS)
  onTestFinished(() => clearInterval(polling))
  const write = async (method: string, rows: readonly Row[]) => {
    await gate.pass()
    const body = JSON.stringify(rows)
    const answer = await fetch(`${url}/${table}`, { method, body })
    const told = (await answer.json()) as { version: number; error?: string }
    if (!answer.ok) throw new Error(told.error)
    await readUpTo(told.version)
    return { refetch: false }
  }
  const modified = (mutations: readonly { modified: Row }[]) => mutations.map((one) => one.modified)
  const collection = createCollection(
    queryCollectionOptions({
      id: next(table),
      queryKey: [table],
      queryClient,
      getKey: (row: Row) => row.id,
      queryFn: async ({ signal }): Promise<Row[]> => {
        const answer = await fetch(`${url}/${table}`, { signal })
        const { version, rows } = (await answer.json()) as { version: number; rows: Row[] }
        readVersion = version
        return rows
      },
      onInsert: ({ transaction }) => write('POST', modified(transaction.mutations)),
      onUpdate: ({ transaction }) => write('PUT', modified(transaction.mutations)),
    }),
  )
  return collection as unknown as Collection<Row, string>
}

async function startRowServer(): Promise<string> {
  const rows = new Map<string, Map<string, Row>>(TABLES.map((table) => [table, new Map()]))
  let version = 0
  const answer = async (request: IncomingMessage): Promise<[number, object]> => {
    const [table = '', id = ''] = request.url!.slice(1).split('/')
    const stored = rows.get(table)!
    if (request.method === 'GET') return [200, { version, rows: [...stored.values()] }]
    if (id !== '') {
      const call = stored.get(id) as CallRow | undefined
      if (call?.status !== 'pending') return [409, { version }]
      stored.set(id, { ...call, status: 'executing' } as Row)
      return [200, { version: (version += 1) }]
    }
    const given = (await json(request)) as Row[]
    if (given.some((row) => row.id === REFUSED))
      return [422, { version, error: 'the backend refuses this row' }]
    for (const row of given) stored.set(row.id, row)
    return [200, { version: (version += 1) }]
  }
  const server = createServer((request, response) => {
    void answer(request).then(([status, body]) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address() as { port: number }
  return `http://127.0.0.1:${address.port}`
}
