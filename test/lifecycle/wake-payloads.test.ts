/** Payloads of today and of the RFC, callbacks in both dialects, and which acks may be sent when. */
import { createServer } from 'node:http'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { runWithLifecycle } from '../../src/runner/run-with-lifecycle.js'
import { WakeAcks } from '../../src/streams/wake-acks.js'
import { durableStreamsWebhookAdapter } from '../../src/streams/webhook-adapter.js'
import { parseDurableStreamsWake, type WakeStream } from '../../src/streams/webhook-wake.js'
import { listen, readAll } from './webhook-world.js'

const today = {
  subscription_id: 's',
  wake_id: 'w_1',
  generation: 3,
  streams: [
    { path: 'a/b', link_type: 'glob', acked_offset: '0_1', tail_offset: '0_9', has_pending: true },
  ],
  callback_url: 'https://streams.example/callback',
  callback_token: 't',
}
const rfc = {
  consumer_id: 's',
  wake_id: 'w_1',
  epoch: 3,
  streams: [{ path: '/v1/stream/a/b', offset: '0_1' }],
  callback: 'https://streams.example/callback',
  token: 't',
}

describe('a wake', () => {
  it('is read in today’s form and in the RFC’s', () => {
    const common = {
      ...{ subscriptionId: 's', wakeId: 'w_1', generation: 3 },
      ...{ callbackUrl: 'https://streams.example/callback', callbackToken: 't' },
    }
    const stream = { path: 'a/b', ackedOffset: '0_1', tailOffset: '0_9', hasPending: true }
    expect(parseDurableStreamsWake(today)).toEqual({ ...common, streams: [stream] })
    expect(parseDurableStreamsWake(rfc)).toEqual({
      ...common,
      streams: [{ ...stream, tailOffset: null }],
      dialect: 'rfc',
    })
  })

  it.each([
    ['body', null],
    ['wake_id', { ...today, wake_id: '' }],
    ['generation', { ...today, generation: '3' }],
    ['streams', { ...today, streams: 'a' }],
    ['path', { ...today, streams: [{}] }],
    ['callback_url', { ...today, callback_url: 'file:///etc/passwd' }],
    ['token', { ...rfc, token: 5 }],
  ])('with a bad %s is refused by its name', (field, body) => {
    const parse = () => parseDurableStreamsWake(body)
    expect(parse).toThrow(expect.objectContaining({ code: 'INVALID_INPUT', field }) as Error)
  })
})

describe("callbacks in the RFC's dialect", () => {
  it('claim first, rotate the token, and carry the epoch and paths', async () => {
    const seen: { token: string | undefined; body: unknown }[] = []
    const server = createServer((request, response) => {
      void readAll(request).then((text) => {
        seen.push({ token: request.headers.authorization, body: JSON.parse(text) as unknown })
        response.end(JSON.stringify({ ok: true, token: `t${seen.length + 1}` }))
      })
    })
    const callback = await listen(server)
    const adapter = durableStreamsWebhookAdapter({ verifySignature: false })
    const wake = parseDurableStreamsWake({ ...rfc, callback, token: 't1' })
    await runWithLifecycle(wake, adapter, async (session) => {
      await session.heartbeat()
      await session.checkpoint([{ source: 'a/b', cursor: '0_5' }])
      await session.complete({ done: true })
    })
    const base = { wake_id: 'w_1', generation: 3, epoch: 3 }
    const acks = [{ path: 'a/b', stream: 'a/b', offset: '0_5' }]
    expect(seen).toEqual([
      { token: 'Bearer t1', body: base },
      { token: 'Bearer t2', body: base },
      { token: 'Bearer t3', body: base },
      { token: 'Bearer t4', body: { ...base, acks, done: true } },
    ])
  })
})

describe('acks', () => {
  const offset = fc.nat(9).map((n) => `0_${n}`)
  const streams: WakeStream[] = ['a', 'b', 'c'].map((path) => ({
    ...{ path, ackedOffset: '0_2', tailOffset: '0_6', hasPending: true },
  }))

  it('before the end never leave nothing pending, and at the end all are sent', () => {
    const step = fc.record({ source: fc.constantFrom('a', 'b', 'c', 'other'), cursor: offset })
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const acks = new WakeAcks(streams)
        const last = new Map<string, string>()
        const server = new Map(streams.map((it) => [it.path, it.ackedOffset]))
        const send = (end: boolean) => {
          const unsent = acks.unsent(end)
          acks.markSent(unsent)
          for (const ack of unsent) {
            // The server refuses what goes back.
            expect(ack.offset >= server.get(ack.stream)!).toBe(true)
            server.set(ack.stream, ack.offset)
          }
        }
        for (const one of steps) {
          if (one.cursor < (last.get(one.source) ?? '')) continue
          last.set(one.source, one.cursor)
          acks.reach([one])
          send(false)
          expect([...server.values()].some((acked) => acked < '0_6')).toBe(true)
        }
        send(true)
        for (const [path, acked] of server) {
          const read = last.get(path) ?? ''
          expect(acked).toBe(read > '0_2' ? read : '0_2')
        }
      }),
    )
  })

  it('vouch for streams of which nothing was recorded, and for no other', () => {
    const acks = new WakeAcks(streams)
    acks.reach([{ source: 'b', cursor: '0_4' }])
    expect(acks.untouched().map((it) => it.source)).toEqual(['a', 'c'])
    acks.reach(acks.untouched())
    expect(acks.exhausted).toBe(false)
    acks.reach([{ source: 'b', cursor: '0_6' }])
    expect(acks.exhausted).toBe(true)
  })
})
