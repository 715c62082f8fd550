/** A host's own tables as Electric collections, written by SQL and confirmed by txid: what the primitives work over. */
import { setTimeout as delay } from 'node:timers/promises'
import { createCollection } from '@tanstack/db'
import { electricCollectionOptions } from '@tanstack/electric-db-collection'
import type postgres from 'postgres'

export type CallRow = {
  id: string
  name: string
  args: unknown
  status: string
  result: unknown
}
export type RequestRow = { id: string; tokens: number; packMs: number; status: string }
export type ChunkRow = { id: string; generationId: string; index: number; content: string }

/** Run once, by the bench. */
export const HOST_TABLES = `
  create table host_calls (id text primary key, name text, args jsonb, status text, result jsonb);
  create table host_requests (id text primary key, tokens int, "packMs" int, status text);
  create table host_chunks (id text primary key, "generationId" text, index int, content text)`

const CHANGING: Record<string, string> = {
  host_calls: 'status = r.status, result = r.result',
  host_requests: 'status = r.status',
  host_chunks: 'content = r.content',
}

/** A collection of one of them; synced before it is returned. */
export async function hostCollection<TRow extends { id: string; [column: string]: unknown }>(
  sql: postgres.Sql,
  electricUrl: string,
  table: string,
) {
  const row = `jsonb_populate_record(null::${table}, $1::text::jsonb)`
  const write = async (statement: string, rows: readonly { modified: TRow }[]) => {
    const [found] = await sql.begin(async (tx) => {
      for (const { modified } of rows) await hit(tx, statement, JSON.stringify(modified))
      return tx<{ txid: string }[]>`select pg_current_xact_id()::xid::text as txid`
    })
    return { txid: Number(found!.txid) }
  }
  const collection = createCollection(
    electricCollectionOptions<TRow>({
      id: table,
      getKey: ({ id }) => id,
      shapeOptions: { url: `${electricUrl}/v1/shape`, params: { table } },
      onInsert: ({ transaction }) =>
        write(`insert into ${table} select * from ${row}`, transaction.mutations),
      onUpdate: ({ transaction }) =>
        write(
          `update ${table} t set ${CHANGING[table]} from ${row} r where t.id = r.id`,
          transaction.mutations,
        ),
    }),
  )
  await collection.preload()
  return collection
}

/** Sync may show a row a moment before statements see it; an update that hit none would never be confirmed. */
async function hit(tx: postgres.TransactionSql, statement: string, row: string): Promise<void> {
  for (let tries = 0; tries < 100; tries += 1) {
    if ((await tx.unsafe(statement, [row])).count > 0) return
    await delay(1)
  }
  throw new Error(`there is no row to update: ${row}`)
}
