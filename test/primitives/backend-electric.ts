/**
 * Postgres through Electric collections, over tables of a host's own. A write is confirmed by its txid; the claim is
 * one UPDATE that moves pending → executing.
 */
import { createCollection, type Collection } from '@tanstack/db'
import { electricCollectionOptions } from '@tanstack/electric-db-collection'
import type postgres from 'postgres'
import { onTestFinished } from 'vitest'
import { pollUntil } from '../support/poll-until.js'
import type { SyncedDatabase } from '../support/synced-database.js'
import { handlerDevice } from './backend-local.js'
import {
  Gate,
  next,
  REFUSED,
  TABLES,
  type Backend,
  type Device,
  type Tables,
} from './backend-world.js'

const COLUMNS: Record<keyof Tables, string> = {
  calls: `id text primary key check (id <> '${REFUSED}'), "requestId" text, name text, args jsonb,
    status text, result jsonb, error text, attempt int not null default 0`,
  requests: `id text primary key check (id <> '${REFUSED}'), prompt text, status text, response text`,
  chunks: `id text primary key check (id <> '${REFUSED}'), "generationId" text, index int, type text,
    content text, "isFinal" boolean`,
}
const CHANGING: Record<keyof Tables, string> = {
  calls: 'status = r.status, result = r.result, error = r.error',
  requests: 'status = r.status, response = r.response',
  chunks: 'content = r.content',
}

type Row = { id: string }

export async function electricBackend(database: SyncedDatabase): Promise<Backend> {
  const { sql } = database
  const tables = Object.fromEntries(
    TABLES.map((table) => [table, `"${database.schema}"."${next(`host_${table}`)}"`]),
  ) as Record<keyof Tables, string>
  for (const table of TABLES) await sql.unsafe(`create table ${tables[table]} (${COLUMNS[table]})`)
  const gate = new Gate()
  return {
    open: async () => {
      const collections = Object.fromEntries(
        TABLES.map((table) => [table, electricCollection(database, table, tables[table], gate)]),
      ) as unknown as Device['collections']
      const all = Object.values(collections) as unknown as Collection<Row, string>[]
      onTestFinished(async () => void (await Promise.all(all.map((one) => one.cleanup()))))
      await Promise.all(all.map((one) => one.preload()))
      return handlerDevice(collections)
    },
    tellsUnconfirmed: true,
    hold: () => gate.hold(),
    async claim({ id }) {
      const [claimed] = await sql.unsafe<{ attempt: number }[]>(
        `update ${tables.calls} set status = 'executing', attempt = attempt + 1
          where id = $1 and status = 'pending' returning attempt`,
        [id],
      )
      if (claimed) return claimed
      // Sync may show a row a moment before statements see it.
      const [there] = await sql.unsafe(`select 1 from ${tables.calls} where id = $1`, [id])
      return there ? false : 'later'
    },
  }
}

function electricCollection(
  { sql, electricUrl, electricSecret }: SyncedDatabase,
  table: keyof Tables,
  name: string,
  gate: Gate,
) {
  const write = async (statement: string, rows: readonly Row[]) => {
    await gate.pass()
    const [found] = await sql.begin(async (tx: postgres.TransactionSql) => {
      for (const row of rows) {
        // Tried again, as an update that hit no row would never be confirmed; see docs/backends.md.
        const hit = async () => (await tx.unsafe(statement, [JSON.stringify(row)])).count > 0
        await pollUntil(`row ${row.id} to be visible`, hit)
      }
      return tx<{ txid: string }[]>`select pg_current_xact_id()::xid::text as txid`
    })
    return { txid: Number(found!.txid) }
  }
  const row = `jsonb_populate_record(null::${name}, $1::text::jsonb)`
  const columns = Object.keys(EMPTY[table])
    .map((column) => `"${column}"`)
    .join(', ')
  const modified = (mutations: readonly { modified: Row }[]) => mutations.map((one) => one.modified)
  return createCollection(
    electricCollectionOptions<Row>({
      id: next(table),
      getKey: ({ id }) => id,
      shapeOptions: {
        url: `${electricUrl}/v1/shape`,
        params: { table: name, ...(electricSecret ? { secret: electricSecret } : {}) },
      },
      onInsert: ({ transaction }) =>
        write(
          `insert into ${name} (${columns}) select ${columns} from ${row}`,
          modified(transaction.mutations),
        ),
      onUpdate: ({ transaction }) =>
        write(
          `update ${name} t set ${CHANGING[table]} from ${row} r where t.id = r.id`,
          modified(transaction.mutations),
        ),
    }),
  )
}

/** The columns that rows are inserted with. */
const EMPTY: { [Name in keyof Tables]: Record<keyof Tables[Name], 0> } = {
  calls: { id: 0, requestId: 0, name: 0, args: 0, status: 0, result: 0, error: 0 },
  requests: { id: 0, prompt: 0, status: 0, response: 0 },
  chunks: { id: 0, generationId: 0, index: 0, type: 0, content: 0, isFinal: 0 },
}
