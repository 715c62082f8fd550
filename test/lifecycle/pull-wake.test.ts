/** Pull-wake subscriptions: workers that claim from the real stream server, with the lease in real Postgres. */
import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { deferred } from '../../src/internal/abort.js'
import { postgresLifecycle } from '../../src/runner/postgres-lifecycle.js'
import { runPullWake } from '../../src/runner/run-pull-wake.js'
import type { RunWake } from '../../src/runner/run-wake.js'
import { durableStreamsWebhookAdapter } from '../../src/streams/webhook-adapter.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { pollUntil } from '../support/poll-until.js'
import { startStreamServer, type StreamServer } from './webhook-world.js'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})

async function newPool(streams: StreamServer) {
  const path = `sessions/${randomUUID()}`
  await streams.create(path)
  const subscription = {
    ...{ streamsUrl: streams.url, id: path, streams: [path], wakeStream: 'wakes/pool' },
    leaseMs: 1_000,
  }
  const read: string[] = []
  const readAll =
    (worker: string): RunWake =>
    async (_wake, session, unread) => {
      for (const { source, from } of unread) {
        const { items, offset } = await streams.read<{ n: number }>(source, from)
        await session.checkpoint([{ source, cursor: offset }])
        read.push(...items.map(({ n }) => `${worker} ${n}`))
      }
    }
  const errors: string[] = []
  const start = (worker: string, run: RunWake = readAll(worker)) => {
    const stop = new AbortController()
    const lifecycle = postgresLifecycle({ db: database.db, leaseMs: 1_000 })
    const adapter = durableStreamsWebhookAdapter({
      streamsUrl: streams.url,
      leaseMs: 1_000,
      lifecycle,
    })
    const ended = runPullWake({
      ...{ subscription, worker, adapter, run, signal: stop.signal },
      ...{ pollMs: 500, retryMs: 20, onError: (error: Error) => errors.push(error.message) },
    })
    const end = async () => {
      stop.abort()
      await ended
    }
    onTestFinished(end)
    return { end }
  }
  const numbers = () => read.map((it) => Number(it.split(' ')[1]))
  const append = (n: number) => streams.append(path, { n })
  return { append, errors, numbers, read, readAll, start, path }
}

describe('runPullWake', () => {
  it('two workers read everything once', async () => {
    const streams = await startStreamServer()
    const pool = await newPool(streams)
    await pool.append(0)
    pool.start('a')
    pool.start('b')
    for (let n = 1; n < 30; n += 1) await pool.append(n)
    await pollUntil('everything to be read', () => pool.numbers().length >= 30)
    expect(pool.numbers()).toEqual(Array.from({ length: 30 }, (_, n) => n))
    expect(pool.errors).toEqual([])
  })

  it('what fails is given back, and read by whoever claims it next', async () => {
    const streams = await startStreamServer()
    const pool = await newPool(streams)
    let failures = 0
    const worker = pool.start('a', async (wake, session, unread) => {
      failures += 1
      if (failures <= 2) throw new Error(`broken ${failures}`)
      await pool.readAll('a')(wake, session, unread)
    })
    await pool.append(1)
    await pollUntil('the third try', () => pool.read.length === 1)
    expect(pool.errors).toEqual(['broken 1', 'broken 2'])
    await worker.end()
  })

  it('a worker that is stopped gives back what it holds, and another goes on', async () => {
    const streams = await startStreamServer()
    const pool = await newPool(streams)
    const begun = deferred()
    const a = pool.start('a', async (_wake, session) => {
      begun.resolve()
      await new Promise((_resolve, reject) => {
        session.signal.addEventListener('abort', () => reject(session.signal.reason as Error))
      })
    })
    await pool.append(1)
    await begun.promise
    pool.start('b')
    await a.end()
    await pollUntil('the other worker', () => pool.read.length === 1)
    expect(pool.read).toEqual(['b 1'])
  })

  it('goes on after the stream server came back without its subscriptions, and loses nothing', async () => {
    const streams = await startStreamServer()
    const pool = await newPool(streams)
    pool.start('a')
    pool.start('b')
    await pool.append(1)
    await pollUntil('the first item', () => pool.read.length === 1)
    await streams.stop()
    await streams.start()
    await pool.append(2)
    await pollUntil('the second item', () => pool.read.length === 2)
    await pool.append(3)
    await pollUntil('the third item', () => pool.read.length === 3)
    expect(pool.numbers()).toEqual([1, 2, 3])
  })

  it('stops at once, also when it never got a turn', async () => {
    const streams = await startStreamServer()
    const pool = await newPool(streams)
    const worker = pool.start('a')
    await worker.end()
    expect(pool.read).toEqual([])
  })
})
