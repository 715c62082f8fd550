/**
 * `sync`: how long until somebody else sees it. All on the embedded stack, each part in a process of its own:
 * sync server, web server, worker, tabs, clients.
 *
 * - ours: insert call → the message in an unmodified Electric client, by long-poll. p50 and p95 are of this.
 *   floor: insert with a NOTIFY → heard in another process.
 * - `sendP95`: a person presses send in one tab → the row in another tab, through the handler.
 * - `textP95`: the model gives a token → another tab has it.
 * - `crowd…`: 500 clients, each with a shape of its own session, while 100 rows a second are written: every row must
 *   arrive once. `crowdP95` is insert call → client.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { createSession, sendMessage } from '../src/server.js'
import type { Measured } from './bench-line.js'
import { startChild, type Child } from './child.js'
import { now } from './clock.js'
import { spreadOf, type Spread } from './statistics.js'
import type { BenchDatabase, World } from './world.js'

const CROWD = 500
const CROWD_ROWS_PER_SECOND = 100
const WARM_UP = 10
/** A person reads before pressing send again: what the last message set off has come to rest. */
const PERSON_PAUSES_MS = 80

export async function benchSync(world: World): Promise<Measured> {
  const database = await world.database()
  await using sync = await startChild('sync-server', { databaseUrl: database.url })
  const electricUrl = await addressOf(sync)
  const count = world.quick ? 60 : 300
  const arrival = await insertToClient(database, electricUrl, count)
  const notified = await insertToListener(await world.database(), count)
  const { send, text, rewrites } = await throughTabs(world, database, electricUrl, count)
  const crowd = await crowdHolds(database, electricUrl, world.quick ? 5 : 20)
  return {
    bench: 'sync',
    unit: 'ms',
    ours: arrival.p50,
    floor: notified.p50,
    p50: arrival.p50,
    p95: arrival.p95,
    n: count,
    limits: [
      { what: 'p95', value: arrival.p95, atMost: 20, unit: ' ms' },
      { what: 'send p95', value: send.p95, atMost: 60, unit: ' ms' },
      { what: 'text p95', value: text.p95, atMost: 100, unit: ' ms' },
      { what: 'crowd rows', value: crowd.rows - crowd.repeats, atLeast: crowd.written },
    ],
    why: 'everything shares the cores of this machine',
    extra: {
      sendP50: send.p50,
      sendP95: send.p95,
      textP50: text.p50,
      textP95: text.p95,
      textTokens: text.n,
      textRewrites: rewrites,
      crowdClients: CROWD,
      crowdSessions: crowd.sessions,
      crowdRows: crowd.rows,
      crowdRepeats: crowd.repeats,
      crowdP50: crowd.spread.p50,
      crowdP95: crowd.spread.p95,
    },
  }
}

async function addressOf(child: Child): Promise<string> {
  const listening = child.next('listening')
  child.order({ type: 'tell' })
  return (await listening).url
}

/** A pause of random length: nothing here may fall into step with a timer. */
const pause = (atLeastMs = 5) => delay(atLeastMs * (1 + Math.random()) + Math.random() * 20)

async function insertToClient(
  { db }: BenchDatabase,
  electricUrl: string,
  count: number,
): Promise<Spread> {
  const { id: sessionId } = await createSession(db)
  await using client = await startChild('crowd', { electricUrl, sessionIds: [sessionId] })
  return await repeated(count, async () => {
    await pause()
    const id = crypto.randomUUID()
    const seen = client.next('seen', ({ key }) => key === id)
    const at = now()
    await sendMessage(db, { id, sessionId, content: String(at) })
    return (await seen).at - at
  })
}

async function insertToListener({ sql, url }: BenchDatabase, count: number): Promise<Spread> {
  await sql.unsafe('create table floor_messages (id text primary key, content text)')
  await using listener = await startChild('listener', { databaseUrl: url })
  return await repeated(count, async () => {
    await pause()
    const id = crypto.randomUUID()
    const seen = listener.next('seen', ({ key }) => key === id)
    const at = now()
    await sql`
      with sent as (insert into floor_messages values (${id}, ${String(at)}) returning id)
      select pg_notify('floor', id) from sent`
    return (await seen).at - at
  })
}

async function throughTabs(
  { streamsUrl }: World,
  database: BenchDatabase,
  electricUrl: string,
  count: number,
): Promise<{ send: Spread; text: Spread; rewrites: number }> {
  const databaseUrl = database.url
  const { id: sessionId } = await createSession(database.db)
  await using worker = await startChild('worker', {
    databaseUrl,
    streamsUrl,
    agents: ['bare', 'clocked'],
    slots: 4,
    tokensPerSecond: 50,
  })
  await using web = await startChild('web', { databaseUrl, electricUrl, streamsUrl })
  const url = await addressOf(web)
  await using first = await startChild('tab', { url, sessionId })
  await using second = await startChild('tab', { url, sessionId })
  const tokens = count
  const paces = worker.next('paces')
  const read = second.next('read')
  first.order({ type: 'send', content: String(tokens), agent: 'clocked' })
  await paces
  const { latencies, rewrites } = await read
  const send = await repeated(count, async () => {
    await pause(PERSON_PAUSES_MS)
    const content = crypto.randomUUID()
    const sent = first.next('sent', ({ key }) => key === content)
    const seen = second.next('seen', ({ key }) => key === content)
    first.order({ type: 'send', content, agent: 'bare' })
    return (await seen).at - (await sent).at
  })
  return { send, text: spreadOf(latencies), rewrites }
}

async function crowdHolds({ db, sql }: BenchDatabase, electricUrl: string, seconds: number) {
  const sessionIds = await Promise.all(
    Array.from({ length: CROWD }, async () => (await createSession(db)).id),
  )
  await using crowd = await startChild('crowd', { electricUrl, sessionIds })
  const written = seconds * CROWD_ROWS_PER_SECOND
  const first = now()
  const inserts: Promise<unknown>[] = []
  for (let row = 0; row < written; row += 1) {
    const wait = first + (row * 1000) / CROWD_ROWS_PER_SECOND - now()
    if (wait > 0) await delay(wait)
    const sessionId = sessionIds[row % CROWD]!
    inserts.push(sendMessage(db, { sessionId, content: String(now()) }))
  }
  await Promise.all(inserts)
  const told = await toldByAll(crowd, written)
  await sql`delete from ai_db.sessions where id = any (${sessionIds})`
  return { ...told, written, spread: spreadOf(told.latencies) }
}

/** The crowd's word when it has every row, or has had its time. */
async function toldByAll(crowd: Child, written: number) {
  for (let tries = 0; ; tries += 1) {
    await delay(250)
    const asked = crowd.next('crowd')
    crowd.order({ type: 'tell' })
    const told = await asked
    if (told.rows >= written || tries >= 20) return told
  }
}

async function repeated(count: number, measure: () => Promise<number>): Promise<Spread> {
  for (let turn = 0; turn < WARM_UP; turn += 1) await measure()
  const samples: number[] = []
  for (let turn = 0; turn < count; turn += 1) samples.push(await measure())
  return spreadOf(samples)
}
