/**
 * What goes wrong around the dev sync server: Postgres restarts, it restarts itself, logs outgrow their
 * limit, clients are slow or vanish, tables are held. Clients come to hold what the table holds again.
 */
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { connect } from 'node:net'
import postgres from 'postgres'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { startPostgres, startSyncServer } from '../../src/dev.js'
import type { SyncServer, SyncServerOptions } from '../../src/dev.js'
import { openTransaction, waitForLock } from '../support/connections.js'
import { createTestDatabase } from '../support/database.js'
import type { TestDatabase } from '../support/database.js'
import { pollUntil } from '../support/poll-until.js'
import { makeTempDir } from '../support/stack.js'
import { followShape } from './shape-follower.js'

let database: TestDatabase
let tables = 0

beforeAll(async () => {
  database = await createTestDatabase({ migrated: false })
})

async function makeTable(): Promise<string> {
  const name = `items_${(tables += 1)}`
  await database.sql.unsafe(`create table ${name} (id int primary key, word text)`)
  return name
}

async function serve(options: Partial<SyncServerOptions> = {}): Promise<SyncServer> {
  const server = await startSyncServer({ databaseUrl: database.url, port: 0, ...options })
  onTestFinished(() => server.stop())
  return server
}

const insert = (table: string, from: number, to = from, size = 1) =>
  database.sql.unsafe(
    `insert into ${table} select i, repeat('x', ${size}) from generate_series(${from}, ${to}) i`,
  )

const slots = async () => {
  const [row] = await database.sql<{ n: number }[]>`
    select count(*)::int as n from pg_replication_slots where database = ${database.name}`
  return row!.n
}

test('Postgres restarts while clients wait: they hear of what happened before and after', async () => {
  const dataDir = await makeTempDir('sync-restart')
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }))
  let postgresServer = await startPostgres({ dataDir, port: 0 })
  onTestFinished(() => postgresServer.stop())
  const databaseUrl = `${postgresServer.serverUrl}/postgres`
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => undefined })
  onTestFinished(() => sql.end({ timeout: 0 }))
  await sql`create table items (id int primary key)`
  const server = await serve({ databaseUrl })
  const follower = followShape(server.url, { params: { table: 'items' } })
  await follower.upToDate()
  const before = performance.now()
  await postgresServer.stop()
  // A fast shutdown waits for who replicates; it must not run into its time limit.
  expect(performance.now() - before).toBeLessThan(4_000)
  postgresServer = await startPostgres({ dataDir, port: postgresServer.port })
  await sql`insert into items values (1)`
  await pollUntil('the row', () => follower.rows.size === 1)
  await sql`insert into items values (2)`
  await pollUntil('the next row', () => follower.rows.size === 2)
  expect(follower.objections).toEqual([])
})

test('the server restarts on its port: clients start over and hold what happened meanwhile', async () => {
  const table = await makeTable()
  const first = await serve()
  const follower = followShape(first.url, { params: { table } })
  await follower.upToDate()
  await first.stop()
  await insert(table, 1)
  const second = await serve({ port: first.port })
  await pollUntil('the row', () => follower.rows.size === 1)
  await insert(table, 2)
  await pollUntil('the next row', () => follower.rows.size === 2)
  expect(follower.refetches).toBeGreaterThan(0)
  await second.stop()
})

test('a server that stops leaves no slot, no connection, and answers who waits', async () => {
  const table = await makeTable()
  const server = await serve()
  const begin = await fetch(`${server.url}/v1/shape?table=${table}&offset=-1`)
  const query = new URLSearchParams({
    table,
    live: 'true',
    handle: begin.headers.get('electric-handle')!,
    offset: begin.headers.get('electric-offset')!,
  })
  expect(await slots()).toBe(1)
  const poll = fetch(`${server.url}/v1/shape?${query}`)
  // The server has it once a request after it on another connection is answered.
  await fetch(`${server.url}/v1/health`)
  await server.stop()
  expect((await poll).status).toBe(200)
  expect(await slots()).toBe(0)
})

test('a replication session that is killed begins again, and nobody misses what happened between', async () => {
  const table = await makeTable()
  const server = await serve()
  const follower = followShape(server.url, { params: { table } })
  await follower.upToDate()
  for (let round = 1; round <= 3; round += 1) {
    await database.sql`
      select pg_terminate_backend(active_pid) from pg_replication_slots where database = ${database.name}`
    await insert(table, round)
    await pollUntil(`row ${round}`, () => follower.rows.size === round)
  }
  expect(follower.objections).toEqual([])
})

test('a log past its limit loses its older half: who is behind starts over, who follows goes on', async () => {
  const table = await makeTable()
  const server = await serve({ shapeLogBytes: 20_000 })
  const params = { table }
  const [behind, present] = [
    followShape(server.url, { params }),
    followShape(server.url, { params }),
  ]
  await Promise.all([behind.upToDate(), present.upToDate()])
  behind.cut()
  for (let at = 1; at <= 40; at += 1) {
    await insert(table, at, at, 1_000)
    await pollUntil(`row ${at}`, () => present.rows.size === at)
  }
  behind.resume()
  await pollUntil('all rows', () => behind.rows.size === 40)
  expect([behind.refetches, present.refetches]).toEqual([1, 0])
  const late = followShape(server.url, { params })
  await late.upToDate()
  expect(late.rows.size).toBe(40)
  expect([...behind.objections, ...present.objections, ...late.objections]).toEqual([])
})

test('a shape nobody asks for is dropped; one that is waited for is not', async () => {
  const [idle, waited] = [await makeTable(), await makeTable()]
  const lines: string[] = []
  const server = await serve({ shapeIdleMs: 200, onLog: (line) => lines.push(line) })
  const waiting = followShape(server.url, { params: { table: waited } })
  const gone = followShape(server.url, { params: { table: idle } })
  await Promise.all([waiting.upToDate(), gone.upToDate()])
  gone.cut()
  await pollUntil('the idle one is dropped', () => lines.some((line) => line.includes('nobody')))
  await insert(waited, 1)
  await pollUntil('the row', () => waiting.rows.size === 1)
  gone.resume()
  await insert(idle, 1)
  await pollUntil('it comes back', () => gone.rows.size === 1)
  expect([waiting.refetches, gone.refetches]).toEqual([0, 1])
})

test('an SSE client that does not read is cut off, and no one else waits for it', async () => {
  const table = await makeTable()
  const server = await serve({ maxUnreadBytes: 100_000 })
  const follower = followShape(server.url, { params: { table } })
  await follower.upToDate()
  const begin = await fetch(`${server.url}/v1/shape?table=${table}&offset=-1`)
  const [handle, offset] = ['electric-handle', 'electric-offset'].map((h) => begin.headers.get(h)!)
  const socket = connect(server.port, '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  const query = new URLSearchParams({
    table,
    live: 'true',
    live_sse: 'true',
    handle: handle!,
    offset: offset!,
  })
  socket.write(`GET /v1/shape?${query} HTTP/1.1\r\nhost: x\r\n\r\n`)
  await once(socket, 'readable')
  socket.pause()
  for (let at = 1; at <= 30; at += 1) await insert(table, at, at, 1_000_000)
  await pollUntil('the other has it all', () => follower.rows.size === 30)
  let bytes = 0
  let tail = ''
  socket.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    tail = (tail + chunk.toString('latin1')).slice(-5)
  })
  socket.resume()
  await pollUntil('its answer ends', () => tail === '0\r\n\r\n')
  expect(bytes).toBeLessThan(30_000_000)
}, 60_000)

test('a table with a writer in progress: the shape waits for it and misses nothing', async () => {
  const table = await makeTable()
  const server = await serve()
  const writer = await openTransaction(database.url)
  await writer.sql.unsafe(`insert into ${table} values (1, 'before')`)
  const follower = followShape(server.url, { params: { table } })
  const [locker] = await pollUntil('it waits for the lock', async () => {
    const rows = await database.sql<{ pid: number }[]>`
      select pid from pg_stat_activity
      where datname = ${database.name} and wait_event_type = 'Lock' and query like 'lock table%'`
    return rows.length > 0 && rows
  })
  await waitForLock(database.sql, locker!.pid)
  expect(follower.rows.size).toBe(0)
  await writer.commit()
  await follower.upToDate()
  expect(follower.rows.size).toBe(1)
})

test('a table that is dropped and made anew is another table, with its own rows', async () => {
  const table = await makeTable()
  const server = await serve({ tableCheckMs: 100 })
  await insert(table, 1)
  const old = followShape(server.url, { params: { table } })
  await old.upToDate()
  await database.sql.unsafe(
    `drop table ${table}; create table ${table} (id int primary key, word text, n int)`,
  )
  await insert(`${table} (id, word)`, 2, 3)
  await pollUntil('it has the new rows', () => old.rows.size === 2)
  expect(old.refetches).toBe(1)
})

test('five hundred clients of five hundred shapes each hear of their own rows, while others are written', async () => {
  const table = await makeTable()
  const server = await serve()
  const clients = Array.from({ length: 500 }, (_, at) =>
    followShape(server.url, { params: { table, where: 'word = $1', params: { 1: `w${at}` } } }),
  )
  await Promise.all(clients.map((client) => client.upToDate()))
  for (let round = 0; round < 5; round += 1) {
    await database.sql.unsafe(
      `insert into ${table} select ${round} * 500 + i, 'w' || i from generate_series(0, 499) i`,
    )
  }
  await pollUntil('all have theirs', () => clients.every(({ rows }) => rows.size === 5))
  expect(clients.flatMap(({ objections }) => objections)).toEqual([])
  const words = clients.map(({ rows }) => [...new Set([...rows.values()].map(({ word }) => word))])
  expect(words).toEqual(clients.map((_, at) => [`w${at}`]))
}, 90_000)
