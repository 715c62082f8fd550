/** `durableStream` under TanStack AI's own transports: its responses, its client, and a real stream server. */
import {
  chat,
  EventType,
  replayRunStream,
  resumeServerSentEventsResponse,
  toServerSentEventsResponse,
  type StreamChunk,
} from '@tanstack/ai'
import { expect, onTestFinished, test } from 'vitest'
import { durableStream, type DurableStreamOptions } from '../../src/streams/durability.js'
import { scriptedAdapter } from '../../src/testing/scripted-adapter.js'
import { pollUntil } from '../support/poll-until.js'
import { startStreams } from './stream-world.js'

const RUN = 'run/1 ü'

const chunk = (delta: string): StreamChunk => ({
  type: EventType.TEXT_MESSAGE_CONTENT,
  messageId: 'm',
  delta,
})

const deltas = (chunks: readonly StreamChunk[]) =>
  chunks.map((item) => ('delta' in item ? item.delta : item.type)).join('')

async function setUp(options: Partial<DurableStreamOptions> = {}) {
  const streams = await startStreams()
  const open = (more: Partial<DurableStreamOptions> = {}) =>
    durableStream({ streamsUrl: streams.url, runId: RUN, ...options, ...more })
  return { streams, open }
}

/** A reader in the background. */
function follow(log: ReturnType<typeof durableStream>, offset = '-1') {
  const stop = new AbortController()
  const seen: { offset: string; chunk: StreamChunk }[] = []
  const ended = (async () => {
    for await (const item of log.read(offset, stop.signal)) seen.push(item)
    return deltas(seen.map((item) => item.chunk))
  })()
  ended.catch(() => {})
  onTestFinished(() => stop.abort())
  const sees = (text: string) =>
    pollUntil(`the reader sees ${text}`, () => deltas(seen.map((item) => item.chunk)) === text)
  return { seen, ended, stop, sees }
}

test('what is appended is read by two readers, in order, each place once, until the log is closed', async () => {
  const { open } = await setUp()
  const log = open()
  const early = follow(open())
  const offsets = await log.append([chunk('a'), chunk('b')])
  await early.sees('ab')
  const late = follow(open())
  offsets.push(...(await log.append([chunk('c')])))
  await log.close()
  expect(await Promise.all([early.ended, late.ended])).toEqual(['abc', 'abc'])
  expect(early.seen.map((item) => item.offset)).toEqual(offsets)
  expect(late.seen).toEqual(early.seen)
  expect(new Set(offsets).size).toBe(3)
  expect(offsets.join('')).toMatch(/^[\x21-\x7e]+$/)
})

test('a finished turn does not end the reading; closing the log does, also of one that waits', async () => {
  const { open } = await setUp()
  const log = open()
  const reader = follow(open())
  const finished = { type: EventType.RUN_FINISHED, threadId: 't', runId: RUN } as const
  await log.append([chunk('a'), finished])
  await reader.sees('aRUN_FINISHED')
  await log.append([chunk('b')])
  await reader.sees('aRUN_FINISHEDb')
  await log.close()
  expect(await reader.ended).toBe('aRUN_FINISHEDb')
})

test('every place resumes right behind itself, those inside a batch too', async () => {
  const { open } = await setUp()
  const log = open()
  await log.append([chunk('a')])
  await log.append([chunk('b'), chunk('c'), chunk('d')])
  await log.append([chunk('e')])
  await log.close()
  const all = await log.snapshot()
  for (const [index, { offset }] of all.entries()) {
    expect(await follow(open(), offset).ended).toBe('abcde'.slice(index + 1))
  }
  expect(await follow(open(), 'now').ended).toBe('')
})

test("'now' gives what comes, and nothing of what was", async () => {
  const { open } = await setUp()
  const log = open()
  await log.append([chunk('a')])
  const reader = follow(open(), 'now')
  await pollUntil('the reader is there', async () => {
    await log.append([chunk('b')])
    return reader.seen.length > 0
  })
  expect(deltas(reader.seen.map((item) => item.chunk))).toMatch(/^b+$/)
})

test('an aborted reader that waits ends without an error', async () => {
  const { open } = await setUp()
  await open().append([chunk('a')])
  const reader = follow(open())
  await reader.sees('a')
  reader.stop.abort()
  expect(await reader.ended).toBe('a')
})

test('a snapshot is what is there now, of an open log too, and nothing of an unknown run', async () => {
  const { open } = await setUp()
  expect(await open({ runId: 'nobody' }).snapshot()).toEqual([])
  const offsets = await open().append([chunk('a')])
  const snapshot = await open().snapshot()
  expect(snapshot.map((item) => item.offset)).toEqual(offsets)
  snapshot.pop()
  expect(await open().snapshot()).toHaveLength(1)
})

test('an unknown run is an error soon: at once for a place in it, after the first chunk’s time from the start', async () => {
  const { open } = await setUp({ firstChunkMs: 50 })
  await expect(follow(open()).ended).rejects.toMatchObject({ code: 'NOT_FOUND' })
  const [offset] = await open().append([chunk('a')])
  const other = (await setUp()).open()
  await expect(follow(other, offset!).ended).rejects.toMatchObject({ code: 'STREAM_FAILED' })
})

test('a reader may come before the run', async () => {
  const { open } = await setUp({ firstChunkMs: 10_000 })
  const reader = follow(open())
  const log = open()
  await log.append([chunk('a')])
  await log.close()
  expect(await reader.ended).toBe('a')
})

test('a server that restarts with its data lost is an error for readers and producer, not a wait', async () => {
  const { open, streams } = await setUp()
  const log = open()
  const [offset] = await log.append([chunk('a')])
  const reader = follow(open())
  await reader.sees('a')
  await streams.loseData()
  await expect(reader.ended).rejects.toThrow(/log of run .* is gone/)
  await expect(log.append([chunk('b')])).rejects.toThrow(/log of run .* is gone/)
  await log.close()
  // Written anew under the same name, a place in the old log is still no place in the new one.
  await open().append([chunk('x'), chunk('y')])
  await expect(follow(open(), offset!).ended).rejects.toThrow(/log of run .* is gone/)
})

test('a server that is away for a moment costs nothing; one that stays away is an error', async () => {
  const { open, streams } = await setUp()
  const log = open()
  await log.append([chunk('a')])
  const reader = follow(open())
  const hasty = follow(open({ giveUpMs: 1 }))
  await Promise.all([reader.sees('a'), hasty.sees('a')])
  await streams.stop()
  const appended = log.append([chunk('b')])
  await expect(hasty.ended).rejects.toThrow(/could not be read/)
  await expect(open({ giveUpMs: 1 }).append([chunk('c')])).rejects.toThrow(/could not be reached/)
  await streams.start()
  await appended
  await log.close()
  expect(await reader.ended).toBe('ab')
})

test('a run has one producer: a second of the same epoch is refused, a higher epoch takes over', async () => {
  const { open } = await setUp()
  const first = open({ epoch: 1 })
  await first.append([chunk('a')])
  await first.append([chunk('b')])
  const twin = open({ epoch: 1 })
  await expect(twin.append([chunk('x')])).rejects.toMatchObject({ code: 'FENCED' })
  await twin.close()
  const reader = follow(open())
  const heir = open({ epoch: 2 })
  await heir.append([chunk('c')])
  await expect(first.append([chunk('x')])).rejects.toMatchObject({ code: 'FENCED' })
  await first.close()
  await heir.append([chunk('d')])
  await heir.close()
  expect(await reader.ended).toBe('abcd')
})

test('two producers that begin at once: one writes, the other is refused', async () => {
  const { open } = await setUp()
  const results = await Promise.allSettled([
    open().append([chunk('a')]),
    open().append([chunk('b')]),
  ])
  expect(results.map((result) => result.status).sort()).toEqual(['fulfilled', 'rejected'])
  expect(await open().snapshot()).toHaveLength(1)
})

test('an append whose answer was lost is in the log once', async () => {
  const { open } = await setUp()
  let lose = true
  const flaky: typeof fetch = async (...request) => {
    const response = await fetch(...request)
    if (request[1]?.method !== 'POST' || !lose) return response
    lose = false
    await response.arrayBuffer()
    throw new TypeError('the connection was reset')
  }
  const log = open({ fetch: flaky })
  await Promise.all([log.append([chunk('a')]), log.append([chunk('b')])])
  await log.close()
  expect(deltas((await open().snapshot()).map((item) => item.chunk))).toBe('ab')
})

test('offsets that are not of this run, or of no run, are refused by name', async () => {
  const { open } = await setUp()
  const [offset] = await open().append([chunk('a')])
  const request = (headers: HeadersInit) => new Request('http://app/chat', { headers })
  for (const bad of ['0_0', 'run1:%:1:a:0_0', 'run1:x:-1:a:0_0']) {
    expect(() => open({ request: request({ 'Last-Event-ID': bad }) })).toThrow(/no offset/)
  }
  const of = (more: Partial<DurableStreamOptions>) => () =>
    open({ request: request({ 'Last-Event-ID': offset! }), ...more })
  expect(of({ runId: 'other' })).toThrow(/is of run/)
  expect(of({})).not.toThrow()
  expect(() => open({ runId: 'a\nb' })).toThrow(/line breaks/)
})

test('TanStack AI delivers over it: a client cut off mid-run reads on by Last-Event-ID in another request', async () => {
  const { streams } = await setUp()
  let goOn = () => {}
  const held = new Promise<void>((resolve) => (goOn = resolve))
  const adapter = (request: Request) => durableStream({ streamsUrl: streams.url, request })
  const post = new Request('http://app/chat', { method: 'POST', headers: { 'X-Run-Id': RUN } })
  async function* slowly() {
    const words = scriptedAdapter({ turns: [{ text: 'one two three' }] })
    let count = 0
    for await (const item of chat({ adapter: words, messages: [{ role: 'user', content: '?' }] })) {
      if (item.type === EventType.TEXT_MESSAGE_CONTENT && ++count === 2) await held
      yield item
    }
  }
  const live = toServerSentEventsResponse(slowly(), {
    durability: { adapter: adapter(post), batch: 1 },
  })
  const cut = await sseUntil(live, (event) => event.chunk.type === EventType.TEXT_MESSAGE_CONTENT)
  const get = (init: RequestInit, query = '') => new Request(`http://app/chat${query}`, init)
  const resumed = resumeServerSentEventsResponse({
    adapter: adapter(get({ headers: { 'Last-Event-ID': cut.at(-1)!.id } })),
  })
  const joined = resumeServerSentEventsResponse({
    adapter: adapter(get({}, `?offset=-1&runId=${encodeURIComponent(RUN)}`)),
  })
  goOn()
  const rest = await sseUntil(resumed)
  const all = await sseUntil(joined)
  expect(all.map((event) => event.id)).toEqual([...cut, ...rest].map((event) => event.id))
  const text = all.map((event) => ('delta' in event.chunk ? event.chunk.delta : '')).join('')
  expect(text).toBe('one two three')
  expect(all.at(-1)!.chunk.type).toBe(EventType.RUN_FINISHED)
  const replayed: StreamChunk[] = []
  const log = durableStream({ streamsUrl: streams.url, runId: RUN })
  for await (const item of replayRunStream(log)) replayed.push(item)
  expect(replayed).toEqual(all.map((event) => event.chunk))
})

interface SseEvent {
  id: string
  chunk: StreamChunk
}

/** Reads a response's events; behind the one that is enough the body is cancelled, as a lost client does. */
async function sseUntil(
  response: Response,
  enough: (event: SseEvent) => boolean = () => false,
): Promise<SseEvent[]> {
  const events: SseEvent[] = []
  let rest = ''
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return events
    const blocks = (rest + value).split('\n\n')
    rest = blocks.pop() ?? ''
    for (const block of blocks) {
      const id = /^id: (.*)$/m.exec(block)?.[1]
      const data = /^data: (.*)$/m.exec(block)?.[1]
      if (id === undefined || data === undefined) continue
      events.push({ id, chunk: JSON.parse(data) as StreamChunk })
      if (!enough(events.at(-1)!)) continue
      await reader.cancel()
      return events
    }
  }
}
