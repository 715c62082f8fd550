/** Webhook subscriptions of the real Durable Streams server, delivered over HTTP, in both modes. */
import { randomUUID } from 'node:crypto'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { deferred } from '../../src/internal/abort.js'
import { handleDurableStreamsWake } from '../../src/runner/handle-durable-streams-wake.js'
import { keepSubscription } from '../../src/runner/keep-subscription.js'
import type { RunWake } from '../../src/runner/run-wake.js'
import {
  durableStreamsWebhookAdapter,
  type DurableStreamsWebhookAdapterOptions,
} from '../../src/streams/webhook-adapter.js'
import { ensureSubscription } from '../../src/streams/webhook-subscription.js'
import type { DurableStreamsWake } from '../../src/streams/webhook-wake.js'
import type { RunnerSession } from '../../src/contract/lifecycle.js'
import { memoryLifecycle } from '../../src/testing/memory-lifecycle.js'
import { EventLog, pollUntil } from '../support/poll-until.js'
import { startEndpoint, startStreamServer, toRequest, type StreamServer } from './webhook-world.js'

interface Item {
  n: number
}

/** A process: its adapter, its endpoint, and what it read. */
async function startRunner(
  streams: StreamServer,
  options: Partial<DurableStreamsWebhookAdapterOptions> & {
    run?: RunWake
    onError?: (error: Error) => void
  } = {},
) {
  const { run, onError, ...rest } = options
  const posts = new EventLog<{ type: 'post'; body: { acks?: unknown; done?: boolean } }>()
  const telling: typeof fetch = async (input, init) => {
    const answer = await fetch(input, init)
    const body =
      typeof init?.body === 'string'
        ? (JSON.parse(init.body) as { acks?: unknown; done?: boolean })
        : {}
    if ('wake_id' in body) posts.push({ type: 'post', body })
    return answer
  }
  const adapter = durableStreamsWebhookAdapter({
    streamsUrl: streams.url,
    leaseMs: 1_000,
    fetch: telling,
    ...rest,
  })
  const read: number[] = []
  const outcomes = new EventLog<Error | 'ended'>()
  const readAll: RunWake = async (_wake, session, unread) => {
    for (const { source, from } of unread) {
      const { items, offset } = await streams.read<Item>(source, from)
      read.push(...items.map((item) => item.n))
      await session.checkpoint([{ source, cursor: offset }])
    }
  }
  const stop = new AbortController()
  onTestFinished(() => stop.abort())
  const endpoint = await startEndpoint((request) =>
    handleDurableStreamsWake({
      request,
      adapter,
      run: run ?? readAll,
      signal: stop.signal,
      waitUntil: (work) => void work.then(() => outcomes.push('ended')),
      onError: onError ?? ((error) => outcomes.push(error)),
    }),
  )
  return { adapter, endpoint, read, readAll, outcomes, posts, stop }
}

/** A stream of its own, and the options of its subscription. */
async function newSession(streams: StreamServer, webhookUrl: string, leaseMs = 1_000) {
  const path = `sessions/${randomUUID()}`
  await streams.create(path)
  const options = { streamsUrl: streams.url, id: path, streams: [path], webhookUrl, leaseMs }
  return { path, options, append: (n: number) => streams.append(path, { n }) }
}

/** Runs until its signal aborts. */
const untilAborted = (session: RunnerSession<DurableStreamsWake>) =>
  new Promise<never>((_resolve, reject) => {
    session.signal.addEventListener('abort', () => reject(session.signal.reason as Error))
  })

describe.each(['ack-immediate', 'request-bound'] as const)('in mode %s', (type) => {
  it('what is appended is read once, and nothing is woken for nothing', async () => {
    const streams = await startStreamServer()
    const runner = await startRunner(streams, { mode: { type }, lifecycle: memoryLifecycle() })
    const { options, append } = await newSession(streams, runner.endpoint.url)
    await ensureSubscription(options)
    for (let n = 1; n <= 3; n += 1) {
      await append(n)
      await runner.outcomes.until('a session that ended', (it) => it === 'ended', n)
    }
    expect(runner.read).toEqual([1, 2, 3])
    // A wake for each append: an end without acks would have been answered with wakes of its own.
    expect(runner.endpoint.deliveries.all.map(({ wake }) => wake.generation)).toEqual([1, 2, 3])
    const status = type === 'ack-immediate' ? 202 : 200
    const answers = await pollUntil('the last answer', () => {
      const all = runner.endpoint.deliveries.all.map((it) => it.status)
      return !all.includes(undefined) && all
    })
    expect(answers).toEqual([status, status, status])
  })

  it('work that never checkpoints causes no wake storm: its end acks what the wake told of', async () => {
    const streams = await startStreamServer()
    const ran = new EventLog<string>()
    const runner = await startRunner(streams, {
      mode: { type },
      run: async (wake) => void ran.push(wake.wakeId),
    })
    const { options, append } = await newSession(streams, runner.endpoint.url)
    await ensureSubscription(options)
    for (let n = 1; n <= 3; n += 1) {
      await append(n)
      await runner.outcomes.until('a session that ended', (it) => it === 'ended', n)
    }
    expect(runner.endpoint.deliveries.all.map(({ wake }) => wake.generation)).toEqual([1, 2, 3])
  })
})

describe('the end of a session', () => {
  it('done: false after everything was read is no false idle: a wake follows', async () => {
    const streams = await startStreamServer()
    const wakes: string[] = []
    const runner = await startRunner(streams, {
      lifecycle: memoryLifecycle(),
      run: async (wake, session, unread) => {
        wakes.push(wake.wakeId)
        await runner.readAll(wake, session, unread)
        return { done: wakes.length > 1 }
      },
    })
    const { options, append } = await newSession(streams, runner.endpoint.url, 60_000)
    await ensureSubscription(options)
    await append(1)
    // By the lease it would come after a minute.
    await runner.outcomes.until('the second session', (it) => it === 'ended', 2)
    expect(new Set(wakes).size).toBe(2)
    expect(runner.read).toEqual([1])
  })

  it('done: false that got nowhere waits for its lease: no storm', async () => {
    const streams = await startStreamServer()
    const runner = await startRunner(streams, { run: async () => ({ done: false }) })
    const { options, append } = await newSession(streams, runner.endpoint.url)
    await ensureSubscription(options)
    await append(1)
    await runner.outcomes.until('the second session', (it) => it === 'ended', 2)
    const first = runner.endpoint.deliveries.all[0]!
    expect(runner.endpoint.deliveries.all).toHaveLength(2)
    expect(runner.posts.all.filter(({ body }) => body.done)).toEqual([])
    expect(first.wake.generation).toBe(1)
  })

  it('`done` never goes out without acks while something is pending', async () => {
    const streams = await startStreamServer()
    const runner = await startRunner(streams, { lifecycle: memoryLifecycle() })
    const { options, append } = await newSession(streams, runner.endpoint.url)
    await ensureSubscription(options)
    await append(1)
    await runner.outcomes.until('a session that ended', (it) => it === 'ended')
    const ends = runner.posts.all.filter(({ body }) => body.done)
    expect(ends).toHaveLength(1)
    expect(ends[0]!.body.acks).toHaveLength(1)
    // Nothing acks the last of it before the end: work that died would not be woken for.
    expect(runner.posts.all.slice(0, -1).every(({ body }) => body.acks === undefined)).toBe(true)
  })

  it('failing within the request has the wake delivered again at once', async () => {
    const streams = await startStreamServer()
    let broken = true
    const runner = await startRunner(streams, {
      mode: { type: 'request-bound' },
      lifecycle: memoryLifecycle(),
      run: async (wake, session, unread) => {
        if (broken) {
          broken = false
          throw new Error('broken')
        }
        await runner.readAll(wake, session, unread)
      },
    })
    const { options, append } = await newSession(streams, runner.endpoint.url, 60_000)
    await ensureSubscription(options)
    await append(1)
    await pollUntil('the retry to be read', () => runner.read.length === 1)
    const [first, second] = runner.endpoint.deliveries.all
    expect(first!.status).toBe(503)
    expect(second!.wake.wake_id).toBe(first!.wake.wake_id)
  })

  it('a request whose time is over is answered, and its session told', async () => {
    const streams = await startStreamServer()
    const reasons: unknown[] = []
    const runner = await startRunner(streams, {
      mode: { type: 'request-bound', maxRequestMs: 50 },
      run: async (_wake, session) => {
        await untilAborted(session).catch((reason: unknown) => reasons.push(reason))
        return { done: false }
      },
    })
    const { options, append } = await newSession(streams, runner.endpoint.url)
    await ensureSubscription(options)
    await append(1)
    await runner.outcomes.until('the session', (it) => it === 'ended')
    expect(reasons).toMatchObject([{ code: 'TIMEOUT' }])
    expect(runner.endpoint.deliveries.all[0]!.status).toBe(202)
  })
})

describe("the RFC's implementation invariants", () => {
  it('10. keepalive responsibility is explicit: heartbeats hold a wake for many leases', async () => {
    const streams = await startStreamServer()
    const finish = deferred()
    const runner = await startRunner(streams, { run: () => finish.promise })
    const { options, append } = await newSession(streams, runner.endpoint.url)
    await ensureSubscription(options)
    await append(1)
    // The claim, and heartbeats over two leases of a second.
    await runner.posts.untilType('post', 8)
    finish.resolve()
    await runner.outcomes.until('the session', (it) => it === 'ended')
    expect(runner.outcomes.all).toEqual(['ended'])
    expect(runner.endpoint.deliveries.all).toHaveLength(1)
  })

  it('10. … and without them the wake goes to another, and the first is fenced and aborted', async () => {
    const streams = await startStreamServer()
    const sessions = new EventLog<{
      generation: number
      session: RunnerSession<DurableStreamsWake>
    }>()
    const finish = deferred()
    const runner = await startRunner(streams, {
      heartbeatIntervalMs: 0,
      run: async (wake, session) => {
        sessions.push({ generation: wake.generation, session })
        await Promise.race([finish.promise, untilAborted(session)])
      },
    })
    const { options, append } = await newSession(streams, runner.endpoint.url)
    await ensureSubscription(options)
    await append(1)
    await sessions.until('the next generation', ({ generation }) => generation === 2)
    const [first, second] = sessions.all.map((it) => it.session)
    await expect(first!.heartbeat()).rejects.toMatchObject({ code: 'FENCED' })
    expect(first!.signal.aborted).toBe(true)
    await second!.heartbeat()
    finish.resolve()
  })
})

describe('deliveries that come twice, late, or from elsewhere', () => {
  it('run once: to the same process, to another, during the work and after it', async () => {
    const streams = await startStreamServer()
    const lifecycle = memoryLifecycle()
    const [begun, finish] = [deferred(), deferred()]
    let runs = 0
    const run: RunWake = async () => {
      runs += 1
      begun.resolve()
      await finish.promise
    }
    const runner = await startRunner(streams, { lifecycle, run })
    const other = await startRunner(streams, { lifecycle: lifecycle.fork(), run })
    const { options, append } = await newSession(streams, runner.endpoint.url)
    await ensureSubscription(options)
    await append(1)
    await begun.promise
    const { headers, body } = runner.endpoint.deliveries.all[0]!
    const again = (url: string) => fetch(toRequest(url, headers, body))
    expect((await again(runner.endpoint.url)).status).toBe(401)
    expect((await again(other.endpoint.url)).status).toBe(202)
    await other.outcomes.until('the duplicate', (it) => it === 'ended')
    finish.resolve()
    await runner.outcomes.until('the session', (it) => it === 'ended')
    const late = await startRunner(streams, { lifecycle: lifecycle.fork(), run })
    expect((await again(late.endpoint.url)).status).toBe(202)
    await late.outcomes.until('the late one', (it) => it === 'ended')
    expect(runs).toBe(1)
  })

  it('a late delivery is refused by what the server says, where no lifecycle remembers it', async () => {
    const streams = await startStreamServer()
    let runs = 0
    const run: RunWake = async () => void (runs += 1)
    const runner = await startRunner(streams, { run })
    const { options, append } = await newSession(streams, runner.endpoint.url)
    await ensureSubscription(options)
    await append(1)
    await runner.outcomes.until('the session', (it) => it === 'ended')
    const { headers, body } = runner.endpoint.deliveries.all[0]!
    const late = await startRunner(streams, { run })
    await fetch(toRequest(late.endpoint.url, headers, body))
    await late.outcomes.until('the late one', (it) => it === 'ended')
    expect(runs).toBe(1)
  })

  it('a token that expired ends the session, and the wake comes anew', async () => {
    const streams = await startStreamServer()
    const sessions = new EventLog<RunnerSession<DurableStreamsWake>>()
    const runner = await startRunner(streams, {
      heartbeatIntervalMs: 0,
      run: async (_wake, session) => {
        sessions.push(session)
        if (sessions.all.length === 1) await untilAborted(session)
      },
    })
    const { options, append } = await newSession(streams, runner.endpoint.url)
    await ensureSubscription(options)
    await append(1)
    const session = await sessions.until('a session', () => true)
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 3_700_000 })
    onTestFinished(() => void vi.useRealTimers())
    await expect(session.heartbeat()).rejects.toThrow('TOKEN_EXPIRED')
    vi.useRealTimers()
    await runner.outcomes.until('the next session', (it) => it === 'ended', 2)
    expect(runner.endpoint.deliveries.all.map(({ wake }) => wake.generation)).toEqual([1, 2])
  })

  it('bad requests are refused before anything is claimed', async () => {
    const streams = await startStreamServer()
    let runs = 0
    const runner = await startRunner(streams, { run: async () => void (runs += 1) })
    const unsigned = await startRunner(streams, {
      verifySignature: false,
      run: async () => void (runs += 1),
    })
    const status = async (url: string, init: RequestInit) => (await fetch(url, init)).status
    const { url } = unsigned.endpoint
    expect(await status(runner.endpoint.url, { method: 'POST', body: '{}' })).toBe(401)
    expect(await status(url, { method: 'POST', body: '{}' })).toBe(400)
    const huge = JSON.stringify({ subscription_id: 'x'.repeat(1_100_000) })
    expect(await status(url, { method: 'POST', body: huge })).toBe(413)
    expect(runs).toBe(0)
  })
})

describe('a stream server that restarts without its subscriptions', () => {
  it('loses no work: what was not done is run once, by one of two processes', async () => {
    const streams = await startStreamServer()
    const lifecycle = memoryLifecycle()
    const a = await startRunner(streams, { lifecycle })
    const { options, append, path } = await newSession(streams, a.endpoint.url)
    await ensureSubscription(options)
    await append(1)
    await a.outcomes.until('the first session', (it) => it === 'ended')
    await streams.stop()
    await streams.start()
    // Nobody is subscribed: this is the work that no wake will tell of.
    await append(2)
    const b = await startRunner(streams, { lifecycle: lifecycle.fork() })
    const keepers = [a, b].map(({ adapter, readAll }) =>
      keepSubscription({ subscription: options, adapter, run: readAll }),
    )
    await Promise.all(keepers.map((keeper) => keeper.ready))
    expect([...a.read, ...b.read]).toEqual([1, 2])
    expect(await lifecycle.readCheckpoints(path)).toEqual([
      { source: path, cursor: await streams.tail(path) },
    ])
    await append(3)
    await a.outcomes.until('a wake of the new subscription', (it) => it === 'ended', 2)
    expect([...a.read, ...b.read].sort()).toEqual([1, 2, 3])
    await Promise.all(keepers.map((keeper) => keeper.stop()))
  })

  it('fences whoever is at work, whose unfinished work is then run again', async () => {
    const streams = await startStreamServer()
    const lifecycle = memoryLifecycle()
    const begun = deferred()
    const lost: string[] = []
    let runs = 0
    const runner = await startRunner(streams, {
      lifecycle,
      onSubscriptionLost: (id) => {
        lost.push(id)
        keeper.poke()
      },
      run: async (wake, session, unread) => {
        runs += 1
        if (runs > 1) return runner.readAll(wake, session, unread)
        begun.resolve()
        await untilAborted(session)
      },
    })
    const { options, append, path } = await newSession(streams, runner.endpoint.url)
    const keeper = keepSubscription({
      subscription: options,
      adapter: runner.adapter,
      run: (wake, session, unread) => {
        runs += 1
        return runner.readAll(wake, session, unread)
      },
    })
    onTestFinished(() => keeper.stop())
    await keeper.ready
    await append(1)
    await begun.promise
    await streams.stop()
    await streams.start()
    await pollUntil('the work to be done again', () => runner.read.length === 1)
    expect(lost).toEqual([path])
    expect(runner.read).toEqual([1])
  })

  it('what stood in the stream before the first subscription is read as well', async () => {
    const streams = await startStreamServer()
    const runner = await startRunner(streams, { lifecycle: memoryLifecycle() })
    const { options, append } = await newSession(streams, runner.endpoint.url)
    await append(1)
    await append(2)
    const { adapter, readAll } = runner
    const keeper = keepSubscription({ subscription: options, adapter, run: readAll })
    await keeper.ready
    await keeper.stop()
    expect(runner.read).toEqual([1, 2])
  })
})

describe('a subscription', () => {
  it('is made once and confirmed; other settings are an error, or replace it when asked', async () => {
    const streams = await startStreamServer()
    const { options } = await newSession(streams, 'http://127.0.0.1:9/')
    expect(await ensureSubscription(options)).toMatchObject({ created: true, leaseMs: 1_000 })
    expect(await ensureSubscription(options)).toMatchObject({ created: false })
    const other = { ...options, leaseMs: 2_000 }
    await expect(ensureSubscription(other)).rejects.toMatchObject({ code: 'DUPLICATE_ID' })
    const replaced = await ensureSubscription({ ...other, replace: true })
    expect(replaced).toMatchObject({ created: true, leaseMs: 2_000 })
  })

  it('options that cannot be are refused', async () => {
    const streams = await startStreamServer()
    const { options } = await newSession(streams, 'http://127.0.0.1:9/')
    const refused = { code: 'INVALID_OPTION' }
    await expect(ensureSubscription({ ...options, streams: [] })).rejects.toMatchObject(refused)
    await expect(ensureSubscription({ ...options, wakeStream: 'w' })).rejects.toMatchObject(refused)
    expect(() => durableStreamsWebhookAdapter({})).toThrow('streamsUrl')
    const bare = durableStreamsWebhookAdapter({ streamsUrl: streams.url })
    const keep = () =>
      keepSubscription({ subscription: options, adapter: bare, run: async () => {} })
    expect(keep).toThrow('lifecycle')
  })
})
