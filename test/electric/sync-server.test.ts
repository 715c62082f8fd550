/**
 * Electric's behaviour through its unmodified clients: each mode shows what the table holds and goes on
 * doing so, whatever moves in and out. Runs against the dev sync server, or a real Electric (ELECTRIC_URL).
 */
import { createCollection, createLiveQueryCollection, eq } from '@tanstack/db'
import { electricCollectionOptions } from '@tanstack/electric-db-collection'
import { beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { pollUntil } from '../support/poll-until.js'
import { createSyncedDatabase } from '../support/synced-database.js'
import type { SyncedDatabase } from '../support/synced-database.js'
import { followShape } from './shape-follower.js'
import type { FollowOptions } from './shape-follower.js'

let synced: SyncedDatabase
let tables = 0
/** The table of the running test, quoted and with its schema. */
let items: string

interface Item {
  [column: string]: unknown
  id: string
  list: string
  done: boolean
  n: number | null
}

beforeAll(async () => {
  synced = await createSyncedDatabase()
})

beforeEach(async () => {
  items = `"${synced.schema}"."Items ${(tables += 1)}"`
  await sql(
    `create table ${items} (id text primary key, list text not null, done boolean not null default false, n int)`,
  )
})

const sql = (text: string, values: (string | number | null)[] = []) =>
  synced.sql.unsafe(text, values)

const add = (id: string, list: string, n: number | null = null) =>
  sql(`insert into ${items} (id, list, n) values ($1, $2, $3)`, [id, list, n])

const follow = (params: Record<string, unknown> = {}, options: Partial<FollowOptions> = {}) =>
  followShape(synced.electricUrl, {
    ...options,
    params: { table: items, secret: synced.electricSecret, ...params } as { table: string },
  })

function collect(syncMode: 'eager' | 'on-demand' | 'progressive', params: object = {}) {
  const collection = createCollection(
    electricCollectionOptions<Item>({
      getKey: (item) => item.id,
      syncMode,
      shapeOptions: {
        url: `${synced.electricUrl}/v1/shape`,
        params: { table: items, secret: synced.electricSecret!, replica: 'full', ...params },
      },
      onInsert: async ({ transaction }) => {
        const { id, list } = transaction.mutations[0].modified
        return synced.sql.begin(async (tx) => {
          await tx.unsafe(`insert into ${items} (id, list) values ($1, $2)`, [id, list])
          const [row] = await tx.unsafe<{ txid: string }[]>(
            'select pg_current_xact_id()::xid::text as txid',
          )
          return { txid: Number(row!.txid) }
        })
      },
    }),
  )
  onTestFinished(() => collection.cleanup())
  return collection
}

const ids = (rows: Iterable<{ id?: unknown }>) => [...rows].map((row) => String(row.id)).sort()

describe.each([
  ['long-poll', {}],
  ['SSE', { liveSse: true }],
])('a shape by %s', (_, options) => {
  test('has the rows there are, then each change: insert, update, delete', async () => {
    await add('a', 'x', 1)
    const follower = follow({}, options)
    await follower.upToDate()
    expect([...follower.rows.values()]).toEqual([{ id: 'a', list: 'x', done: false, n: 1 }])
    await add('b', 'x')
    await sql(`update ${items} set n = 2 where id = 'a'`)
    await pollUntil('both', () => follower.rows.size === 2)
    await pollUntil('the update', () => [...follower.rows.values()].some(({ n }) => n === 2))
    await sql(`delete from ${items} where id = 'b'`)
    await pollUntil('the delete', () => follower.rows.size === 1)
    expect(follower.objections).toEqual([])
  })

  test('with a where: a row that moves in is an insert, one that moves out a delete', async () => {
    await add('a', 'x')
    await add('b', 'y')
    const follower = follow({ where: 'list = $1', params: { 1: 'x' } }, options)
    await follower.upToDate()
    expect(ids(follower.rows.values())).toEqual(['a'])
    await sql(`update ${items} set list = 'x' where id = 'b'`)
    await pollUntil('b moved in', () => follower.rows.size === 2)
    await sql(`update ${items} set list = 'y' where id = 'a'`)
    await pollUntil('a moved out', () => follower.rows.size === 1)
    expect(ids(follower.rows.values())).toEqual(['b'])
    expect(follower.objections).toEqual([])
  })
})

test('a client that was away goes on where it was, without a second snapshot', async () => {
  const follower = follow()
  await follower.upToDate()
  follower.cut()
  await add('a', 'x')
  await add('b', 'x')
  follower.resume()
  await pollUntil('what it missed', () => follower.rows.size === 2)
  expect(follower.refetches).toBe(0)
  expect(follower.objections).toEqual([])
})

test('a transaction is there whole: no batch ends within it', async () => {
  const follower = follow()
  await follower.upToDate()
  const sizes: number[] = []
  follower.stream.subscribe(() => void sizes.push(follower.rows.size))
  await sql(`insert into ${items} (id, list) select 'i' || i, 'x' from generate_series(1, 3000) i`)
  await pollUntil('all rows', () => follower.rows.size === 3000)
  expect(sizes.filter((size) => size !== 0 && size !== 3000)).toEqual([])
})

test('a rolled back transaction is never seen', async () => {
  const follower = follow()
  await follower.upToDate()
  await synced.sql
    .begin(async (tx) => {
      await tx.unsafe(`insert into ${items} (id, list) values ('gone', 'x')`)
      throw new Error('rolled back')
    })
    .catch(() => undefined)
  await add('a', 'x')
  await pollUntil('the next row', () => follower.rows.size === 1)
  expect(ids(follower.rows.values())).toEqual(['a'])
})

test('columns leaves out the others, also from changes', async () => {
  await add('a', 'x', 1)
  const follower = follow({ columns: ['id', 'n'] })
  await follower.upToDate()
  await sql(`update ${items} set n = 2, list = 'y'`)
  await pollUntil('the update', () => [...follower.rows.values()][0]?.n === 2)
  expect([...follower.rows.values()]).toEqual([{ id: 'a', n: 2 }])
})

test('replica=full tells whole rows and what they were; the default only what changed', async () => {
  await add('a', 'x', 1)
  const [full, brief] = [follow({ replica: 'full' }), follow()]
  await Promise.all([full.upToDate(), brief.upToDate()])
  await sql(`update ${items} set n = 2`)
  const update = (follower: typeof full) =>
    pollUntil('the update', () =>
      follower.messages.find(
        ({ headers }) => 'operation' in headers && headers.operation === 'update',
      ),
    )
  expect(await update(full)).toMatchObject({
    value: { id: 'a', list: 'x', done: false, n: 2 },
    old_value: { n: 1 },
  })
  expect((await update(brief)) as object).toMatchObject({ value: { id: 'a', n: 2 } })
  expect(Object.keys(((await update(brief)) as { value: object }).value).sort()).toEqual([
    'id',
    'n',
  ])
})

test('a changed primary key is a delete and an insert that name each other', async () => {
  await add('a', 'x')
  const follower = follow()
  await follower.upToDate()
  await sql(`update ${items} set id = 'b'`)
  await pollUntil('the new key', () => ids(follower.rows.values())[0] === 'b')
  expect(follower.rows.size).toBe(1)
  expect(follower.messages.filter(({ headers }) => 'lsn' in headers)).toMatchObject([
    { headers: { operation: 'delete', key_change_to: expect.stringContaining('"b"') } },
    { headers: { operation: 'insert', key_change_from: expect.stringContaining('"a"') } },
  ])
})

test('values of every kind are the same from the snapshot and from the log', async () => {
  const kinds = items.replace('Items', 'Kinds')
  await sql(`create table ${kinds} (
    a int, "B c" text, big int8, num numeric(10, 2), j jsonb, at timestamptz, ts timestamp, d date, bin bytea,
    arr text[], ints int[], f float8, u uuid, iv interval, c char(4), nothing text, ok boolean,
    primary key (a, "B c"))`)
  const insert = `insert into ${kinds} values ($1, 'k/1"', 9007199254740993, 1.50, '{"a": [1, null, "é"]}',
    '2026-01-01 12:00:00.123456+02', '2026-01-01 12:00', '2026-01-01', '\\x00ff', array['a,b', null, '"q"', ''],
    '{1,2}', 0.1, '00000000-0000-0000-0000-00000000000a', '1 day 2 hours', 'ab', null, true)`
  await sql(insert, [1])
  const follower = follow({ table: kinds, replica: 'full' })
  await follower.upToDate()
  await sql(insert, [2])
  await pollUntil('the second row', () => follower.rows.size === 2)
  const [first, second] = [...follower.rows.values()]
  expect({ ...second, a: 1 }).toEqual(first)
  expect(first).toMatchObject({
    'B c': 'k/1"',
    big: 9007199254740993n,
    num: '1.50',
    j: { a: [1, null, 'é'] },
    at: '2026-01-01 10:00:00.123456+00',
    bin: '\\x00ff',
    arr: ['a,b', null, '"q"', ''],
    ints: [1, 2],
    nothing: null,
    ok: true,
  })
})

test('a large value that an update does not touch stays what it was', async () => {
  await sql(`alter table ${items} add column big text`)
  await sql(`alter table ${items} alter column big set storage external`)
  const big = 'x'.repeat(50_000)
  await sql(`insert into ${items} (id, list, big) values ('a', 'x', $1)`, [big])
  const follower = follow({ where: 'length(big) > 10', replica: 'full' })
  await follower.upToDate()
  await sql(`update ${items} set n = 7`)
  await pollUntil('the update', () => [...follower.rows.values()][0]?.n === 7)
  expect([...follower.rows.values()][0]?.big).toBe(big)
})

test('truncate starts every client over, with an empty table', async () => {
  await add('a', 'x')
  const follower = follow()
  await follower.upToDate()
  await sql(`truncate ${items}`)
  await pollUntil('the refetch', () => follower.refetches === 1)
  await add('b', 'x')
  await pollUntil('the new row', () => follower.rows.size === 1)
  expect(ids(follower.rows.values())).toEqual(['b'])
})

test('a column that is added arrives with the next change', async () => {
  await add('a', 'x')
  const follower = follow()
  await follower.upToDate()
  await sql(`alter table ${items} add column extra text default 'new'`)
  await add('b', 'x')
  await pollUntil('both rows with it', () => {
    const rows = [...follower.rows.values()]
    return rows.length === 2 && rows.every(({ extra }) => extra === 'new')
  })
})

describe.each(['eager', 'on-demand', 'progressive'] as const)('an %s collection', (mode) => {
  const live = (collection: ReturnType<typeof collect>, list: string) => {
    const query = createLiveQueryCollection((q) =>
      q.from({ item: collection }).where(({ item }) => eq(item.list, list)),
    )
    onTestFinished(() => query.cleanup())
    return query
  }

  test('shows what a live query asks for, with rows that move in by an update and out again', async () => {
    await add('a', 'x')
    await add('b', 'y')
    const query = live(collect(mode), 'x')
    await query.preload()
    expect(ids(query.toArray)).toEqual(['a'])
    await sql(`update ${items} set list = 'x' where id = 'b'`)
    await pollUntil('b', () => query.size === 2)
    await sql(`update ${items} set list = 'y' where id = 'a'`)
    await pollUntil('not a', () => query.size === 1)
    expect(ids(query.toArray)).toEqual(['b'])
  })

  test('a later query, ordered and limited, gets its rows too', async () => {
    for (let n = 0; n < 9; n += 1) await add(`i${n}`, n < 5 ? 'x' : 'y', n)
    const collection = collect(mode)
    await live(collection, 'y').preload()
    const top = createLiveQueryCollection((q) =>
      q
        .from({ item: collection })
        .where(({ item }) => eq(item.list, 'x'))
        .orderBy(({ item }) => item.n, 'desc')
        .limit(2),
    )
    onTestFinished(() => top.cleanup())
    await top.preload()
    await pollUntil('the top two', () => top.size === 2)
    expect(top.toArray.map(({ id }) => id)).toEqual(['i4', 'i3'])
    await add('i9', 'x', 9)
    await pollUntil('the new top', () => top.toArray[0]?.id === 'i9')
  })

  test('a write of its own is confirmed by its transaction id, and soon', async () => {
    const collection = collect(mode)
    await live(collection, 'x').preload()
    const before = performance.now()
    const write = collection.insert({ id: 'mine', list: 'x', done: false, n: null })
    await write.isPersisted.promise
    expect(performance.now() - before).toBeLessThan(3_000)
    expect(collection.get('mine')).toMatchObject({ list: 'x', $synced: true })
  })
})
