/**
 * `tokens`: 50 streams of 50 tokens a second each, written by one worker process, read over SSE by another.
 *
 * - p50, p95: from the moment the model adapter yields a token to the moment the reader has it, in ms. Every
 *   token carries the time it was yielded at, so a late timer of the model is not counted as latency.
 * - `held`: did every stream keep its pace? A bench that lets them lag measures lighter work.
 * - ours, floor, ratio: bytes of write-ahead log per 1,000 tokens, everything a generation writes included,
 *   against one inserted row per token into a table of three columns and its primary key.
 */
import { createSession, createStore, sendMessage } from '../src/server.js'
import type { Measured } from './bench-line.js'
import { startChild, type Child } from './child.js'
import type { NoteOf } from './messages.js'
import { spreadOf } from './statistics.js'
import type { BenchDatabase, World } from './world.js'

const STREAMS = 50
const TOKENS_PER_SECOND = 50
const WARM_UP_SECONDS = 2
/** Below this share of its pace a stream did not hold it. */
const HELD = 0.95
const FLOOR_ROWS = 5_000

export async function benchTokens(world: World): Promise<Measured> {
  const database = await world.database()
  const floor = await world.database()
  const { streamsUrl } = world
  await using worker = await startChild('worker', {
    databaseUrl: database.url,
    streamsUrl,
    agents: ['clocked'],
    slots: STREAMS,
    tokensPerSecond: TOKENS_PER_SECOND,
  })
  await using reader = await startChild('reader', { databaseUrl: database.url, streamsUrl })
  await stream({ database, worker, reader, tokens: WARM_UP_SECONDS * TOKENS_PER_SECOND })
  const tokens = (world.quick ? 8 : 30) * TOKENS_PER_SECOND
  const before = await walPosition(database)
  const { read, paces } = await stream({ database, worker, reader, tokens })
  const ours = ((await walSince(database, before)) / (STREAMS * tokens)) * 1000
  const rowPerToken = await rowPerTokenWal(floor)
  const held = paces.tokensPerSecond.filter((pace) => pace >= HELD * TOKENS_PER_SECOND).length
  const whole = read.tokens.filter((count) => count === tokens).length
  const { p50, p95, n } = spreadOf(read.latencies)
  return {
    bench: 'tokens',
    unit: 'WAL bytes per 1,000 tokens (p50, p95: ms)',
    ours,
    floor: rowPerToken,
    p50,
    p95,
    n,
    limits: [
      { what: 'p95', value: p95, atMost: 100, unit: ' ms' },
      { what: 'WAL / floor', value: ours / rowPerToken, atMost: 0.1 },
      { what: 'streams held', value: Math.min(held, whole), atLeast: STREAMS },
    ],
    why: 'worker, reader, stream server and Postgres share the cores of this machine',
    extra: {
      held: held === STREAMS,
      whole: whole === STREAMS,
      rewrites: read.rewrites,
      modelLatenessMsP95: spreadOf(paces.latenessMs).p95,
    },
  }
}

interface Streaming {
  database: BenchDatabase
  worker: Child
  reader: Child
  tokens: number
}

/** All streams from their first to their last token. */
async function stream({ database, worker, reader, tokens }: Streaming): Promise<{
  read: NoteOf<'read'>
  paces: NoteOf<'paces'>
}> {
  const { db } = database
  const store = createStore(db)
  const all = { read: reader.next('read'), paces: worker.next('paces') }
  const generationIds = await Promise.all(
    Array.from({ length: STREAMS }, async () => {
      const session = await createSession(db)
      // The model takes its number of tokens from the message.
      const content = String(tokens)
      const sent = await sendMessage(db, { sessionId: session.id, targetAgent: 'clocked', content })
      return (await store.generationForMessage(sent.id))!
    }),
  )
  reader.order({ type: 'read', generationIds })
  return { read: await all.read, paces: await all.paces }
}

async function walPosition({ sql }: BenchDatabase): Promise<string> {
  const [row] = await sql<{ lsn: string }[]>`select pg_current_wal_lsn()::text as lsn`
  return row!.lsn
}

async function walSince({ sql }: BenchDatabase, lsn: string): Promise<number> {
  const [row] = await sql<{ bytes: number }[]>`
    select (pg_current_wal_lsn() - ${lsn}::pg_lsn)::float8 as bytes`
  return row!.bytes
}

/** Rows of the same size as the clocked model's tokens, each its own transaction, as tokens come. */
async function rowPerTokenWal(floor: BenchDatabase): Promise<number> {
  const { sql } = floor
  await sql.unsafe(`
    create schema floor;
    create table floor.chunks (generation_id text, index int, content text, primary key (generation_id, index))`)
  const ids = Array.from({ length: STREAMS }, () => crypto.randomUUID())
  let next = 0
  const insert = async (upTo: number) => {
    while (next < upTo) {
      const place = next++
      await sql`
        insert into floor.chunks (generation_id, index, content)
        values (${ids[place % STREAMS]!}, ${Math.floor(place / STREAMS)}, ${'3456789.1 '})`
    }
  }
  const tenAtOnce = (upTo: number) => Promise.all(Array.from({ length: 10 }, () => insert(upTo)))
  await tenAtOnce(FLOOR_ROWS / 5)
  const before = await walPosition(floor)
  await tenAtOnce(FLOOR_ROWS + FLOOR_ROWS / 5)
  return ((await walSince(floor, before)) / FLOOR_ROWS) * 1000
}
