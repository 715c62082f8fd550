/**
 * Random transactions over several tables from several connections, and random clients that join, are
 * cut off, come back and lose their shape meanwhile: at the end each holds exactly what SQL says, and
 * none was ever told a log that does not fit what it had. A failure prints the seed and the smallest
 * case (`FUZZ_SEED=… FUZZ_PATH=…` runs it again); `FUZZ_RUNS` changes how many there are.
 *
 * Cases share a database and a sync server whose logs are short, so that they are also compacted.
 */
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import type postgres from 'postgres'
import { beforeAll, expect, test } from 'vitest'
import { createSyncedDatabase } from '../support/synced-database.js'
import type { SyncedDatabase } from '../support/synced-database.js'
import { pollUntil } from '../support/poll-until.js'
import { followCollection } from './collection-follower.js'
import { followShape } from './shape-follower.js'

const RUNS = Number(process.env.FUZZ_RUNS ?? 200)
const SEED = process.env.FUZZ_SEED === undefined ? undefined : Number(process.env.FUZZ_SEED)

let synced: SyncedDatabase
let pools: postgres.Sql[]
const tables = ['fuzz_a', 'Fuzz B'] as const
type Table = (typeof tables)[number]

beforeAll(async () => {
  synced = await createSyncedDatabase({ shapeLogBytes: 300 })
  await synced.sql.unsafe(`
    set search_path to "${synced.schema}";
    create table fuzz_a (id text primary key, bucket text, n int, note text, flag boolean not null);
    create table "Fuzz B" (bucket text, k int, n int, "a Note" text, tags text[], primary key (bucket, k));
    reset search_path`)
  pools = [0, 1, 2].map(() => synced.connect(1).$client)
})

const table = fc.constantFrom(...tables)
const key = fc.integer({ min: 0, max: 3 })
const bucket = fc.integer({ min: 0, max: 1 })
const nullable = fc.option(fc.integer({ min: 0, max: 9 }), { nil: null })

const operation = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('insert'),
      table,
      key,
      bucket,
      n: nullable,
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('update'),
      table,
      key,
      bucket,
      n: nullable,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('delete'),
      table,
      key,
      bucket,
      n: nullable,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('move'),
      table,
      key,
      bucket,
      n: nullable,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('rekey'),
      table,
      key,
      bucket,
      n: nullable,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('all'),
      table,
      key,
      bucket,
      n: nullable,
    }),
  },
)
type Operation = { kind: string; table: Table; key: number; bucket: number; n: number | null }

const transaction = fc.record({
  connection: fc.integer({ min: 0, max: 2 }),
  operations: fc.array(operation, { minLength: 1, maxLength: 5, size: 'max' }),
  commits: fc.boolean().chain((rare) => (rare ? fc.boolean() : fc.constant(true))),
})

const where = fc.constantFrom('bucket', 'bucket and n', 'likeness', 'null', 'either')
const client = fc.record({
  table,
  where,
  bucket,
  n: fc.integer({ min: 0, max: 9 }),
  mode: fc.constantFrom('stream', 'stream', 'stream', 'sse', 'eager', 'on-demand', 'progressive'),
  replica: fc.constantFrom('default', 'full'),
  fewColumns: fc.boolean(),
  /** Before which transaction it joins. */
  joins: fc.integer({ min: 0, max: 8 }),
  /** What happens to it before which transaction. */
  fate: fc.array(
    fc.record({
      at: fc.integer({ min: 0, max: 8 }),
      what: fc.constantFrom('cut', 'resume', 'anew', 'rotate'),
    }),
    { maxLength: 3 },
  ),
})
type Client = typeof client extends fc.Arbitrary<infer T> ? T : never

const scenario = fc.record({
  transactions: fc.array(transaction, { minLength: 2, maxLength: 9, size: 'max' }),
  clients: fc.array(client, { minLength: 1, maxLength: 4, size: 'max' }),
})

const quoted = (name: string) => `"${synced.schema}"."${name}"`

/** A statement of one case; rows of different cases never meet, as each has buckets of its own. */
function statement(one: Operation, run: string): [string, (string | number | null)[]] {
  const { kind, n } = one
  const bucket = `${run}-${one.bucket}`
  const t = quoted(one.table)
  if (one.table === 'fuzz_a') {
    const id = `${run}/${one.key}`
    if (kind === 'insert') {
      return [
        `insert into ${t} values ($1, $2, $3, $4, $3 is null) on conflict do nothing`,
        [id, bucket, n, `note ${n}`],
      ]
    }
    if (kind === 'update') return [`update ${t} set n = $2 where id = $1`, [id, n]]
    if (kind === 'delete') return [`delete from ${t} where id = $1`, [id]]
    if (kind === 'move')
      return [`update ${t} set bucket = $2, note = note || '+' where id = $1`, [id, bucket]]
    if (kind === 'rekey') {
      const other = `${run}/${one.bucket}`
      return [
        `update ${t} set id = $2, flag = not flag where id = $1 and not exists (select from ${t} where id = $2)`,
        [id, other],
      ]
    }
    return [`update ${t} set n = coalesce(n, 0) + 1 where bucket = $1`, [bucket]]
  }
  const k = one.key
  if (kind === 'insert') {
    return [
      `insert into ${t} values ($1, $2, $3, 'it''s', array['a b', null, $4]) on conflict do nothing`,
      [bucket, k, n, `{"${n}`],
    ]
  }
  if (kind === 'update')
    return [`update ${t} set n = $3 where bucket = $1 and k = $2`, [bucket, k, n]]
  if (kind === 'delete') return [`delete from ${t} where bucket = $1 and k = $2`, [bucket, k]]
  if (kind === 'all') return [`update ${t} set n = coalesce(n, 0) + 1 where bucket = $1`, [bucket]]
  return [
    `update ${t} set k = k + 10, "a Note" = null where bucket = $1 and k = $2 and not exists (select from ${t} where bucket = $1 and k = $2 + 10)`,
    [bucket, k],
  ]
}

/** The clause of a client, and the same with the values in it. */
function clauseOf({ where, bucket, n }: Client, run: string) {
  const name = `${run}-${bucket}`
  const params: Record<string, string> = {}
  const text = (
    {
      bucket: 'bucket = $1',
      'bucket and n': 'bucket = $1 and n > $2',
      likeness: 'bucket like $1',
      null: 'bucket like $1 and n is null',
      either: '(bucket = $1 or n = $2) and bucket like $3',
    } as const
  )[where as 'bucket']
  const values: Record<string, string[]> = {
    bucket: [name],
    'bucket and n': [name, `${n}`],
    likeness: [`${run}-%`],
    null: [`${run}-%`],
    either: [name, `${n}`, `${run}-%`],
  }
  values[where]!.forEach((value, at) => (params[at + 1] = value))
  return { text, params, values: values[where]! }
}

async function runTransaction(
  sql: postgres.Sql,
  one: { operations: Operation[]; commits: boolean },
  run: string,
) {
  await sql
    .begin(async (tx) => {
      for (const operation of one.operations) {
        const [text, values] = statement(operation, run)
        await tx.unsafe(text, values)
      }
      if (!one.commits) throw new Error('rolled back on purpose')
    })
    // Two of them may also be in each other's way: then one of them did not happen.
    .catch(() => undefined)
}

const columnsOf = { fuzz_a: ['id', 'n'], 'Fuzz B': ['bucket', 'k', 'a Note'] }

function startClient(client: Client, run: string) {
  const { text, params, values } = clauseOf(client, run)
  const isStream = client.mode === 'stream' || client.mode === 'sse'
  const columns = isStream && client.fewColumns ? columnsOf[client.table] : undefined
  const shape = {
    table: quoted(client.table),
    where: text,
    params,
    replica: (client.mode === 'on-demand' ? 'full' : client.replica) as 'full',
    ...(columns ? { columns } : {}),
    ...(synced.electricSecret ? { secret: synced.electricSecret } : {}),
  }
  const chosen = columns?.map((name) => `"${name}"`).join(', ') ?? '*'
  const sql = `select to_jsonb(t) as row from (select ${chosen} from ${quoted(client.table)} where ${text}) t`
  const expected = async () => {
    const rows = await synced.sql.unsafe<{ row: object }[]>(sql, values)
    return sorted(rows.map(({ row }) => row))
  }
  const rotate = async () => {
    const query = new URLSearchParams({ table: shape.table, where: text, replica: shape.replica })
    for (const [n, value] of Object.entries(params)) query.set(`params[${n}]`, value)
    if (synced.electricSecret) query.set('secret', synced.electricSecret)
    if (columns) query.set('columns', columns.map((name) => `"${name}"`).join(','))
    await fetch(`${synced.electricUrl}/v1/shape?${query}`, { method: 'DELETE' })
  }
  if (!isStream) {
    const mode = client.mode as 'eager'
    const follower = followCollection(
      synced.electricUrl,
      shape,
      mode,
      client.table === 'fuzz_a' ? (r) => String(r.id) : (r) => `${String(r.bucket)}/${String(r.k)}`,
    )
    return {
      expected,
      rotate,
      rows: () => sorted(follower.rows()),
      objections: () => follower.objections,
      cut: () => {},
      resume: () => {},
      stop: follower.stop,
    }
  }
  const follower = followShape(synced.electricUrl, {
    params: shape,
    liveSse: client.mode === 'sse',
  })
  return {
    expected,
    rotate,
    rows: () => sorted([...follower.rows.values()]),
    objections: () => follower.objections,
    cut: follower.cut,
    resume: (how: 'on' | 'anew') => follower.resume(client.mode === 'sse' ? 'anew' : how),
    stop: async () => follower.cut(),
  }
}

function sorted(rows: Iterable<object>): string[] {
  const text = (row: object) =>
    JSON.stringify(Object.entries(row).sort(([a], [b]) => (a < b ? -1 : 1)))
  return [...rows].map(text).sort()
}

/** Rows to begin with, so that most of what happens happens to a row. */
async function seedRows(run: string): Promise<void> {
  await synced.sql.unsafe(
    `insert into ${quoted('fuzz_a')}
     select $1 || '/' || k, $1 || '-' || k % 2, k, 'note', true from generate_series(0, 2) k`,
    [run],
  )
  await synced.sql.unsafe(
    `insert into ${quoted('Fuzz B')} select $1 || '-' || k % 2, k, k from generate_series(0, 2) k`,
    [run],
  )
}

let cases = 0

async function runScenario({
  transactions,
  clients,
}: typeof scenario extends fc.Arbitrary<infer T> ? T : never) {
  const run = `c${(cases += 1)}`
  const running: { client: Client; follower: ReturnType<typeof startClient> }[] = []
  await seedRows(run)
  const busy = [Promise.resolve(), Promise.resolve(), Promise.resolve()]
  for (let at = 0; at <= transactions.length; at += 1) {
    for (const client of clients) {
      if (Math.min(client.joins, transactions.length) === at) {
        running.push({ client, follower: startClient(client, run) })
      }
    }
    for (const { client, follower } of running) {
      for (const { what } of client.fate.filter((fate) => fate.at === at)) {
        if (what === 'cut') follower.cut()
        else if (what === 'rotate') await follower.rotate()
        else follower.resume(what === 'anew' ? 'anew' : 'on')
      }
    }
    const one = transactions[at]
    if (one === undefined) break
    const { connection } = one
    busy[connection] = busy[connection]!.then(() =>
      runTransaction(pools[connection]!, one as never, run),
    )
    if (at % 3 === 2) await busy[connection]
  }
  await Promise.all(busy)
  for (const { client, follower } of running) if (client.fate.length > 0) follower.resume('on')
  try {
    for (const { client, follower } of running) {
      const expected = await follower.expected()
      await pollUntil(
        'the client holds what SQL says',
        () => isDeepStrictEqual(follower.rows(), expected),
        8_000,
      ).catch(() => {
        expect({ client, rows: follower.rows() }).toEqual({ client, rows: expected })
      })
      expect(follower.objections()).toEqual([])
    }
  } finally {
    await Promise.all(running.map(({ follower }) => follower.stop()))
  }
}

test(
  `after ${RUNS} random histories every client holds what SQL says`,
  { timeout: 240_000 },
  async () => {
    await fc.assert(fc.asyncProperty(fc.noBias(scenario), runScenario), {
      numRuns: RUNS,
      seed: SEED,
      path: process.env.FUZZ_PATH,
      endOnFailure: process.env.FUZZ_SHRINK === undefined,
    })
  },
)
