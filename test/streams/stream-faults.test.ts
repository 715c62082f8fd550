/** What goes wrong between a writer, the stream server and a reader, and what is seen of it: nothing. */
import { expect, onTestFinished, test, vi } from 'vitest'
import { FencedError } from '../../src/errors.js'
import { readTranscript } from '../../src/streams/reader.js'
import {
  attempt,
  done,
  GENERATION,
  PATH,
  startRun,
  startStreams,
  text,
  watch,
} from './stream-world.js'

test('a stale attempt lands no byte; its flush rejects FENCED and it is told once', async () => {
  const streams = await startStreams()
  const stale = startRun(streams.url, 1)
  stale.append(attempt(1), text('old'))
  await stale.writer.flush()
  const heir = startRun(streams.url, 2, {}, stale.transcript)
  heir.append(attempt(2), text('new'))
  await heir.writer.flush()
  const before = streams.items

  stale.append(text(' older'))
  await expect(stale.writer.flush()).rejects.toBeInstanceOf(FencedError)
  stale.append(text(' oldest'))
  await expect(stale.writer.flush()).rejects.toMatchObject({ code: 'FENCED' })
  await expect(stale.writer.end(done)).rejects.toMatchObject({ code: 'FENCED' })
  expect(streams.items).toEqual(before)
  expect(stale.errors).toHaveLength(1)
})

test('a first attempt that wakes up late finds the stream made and fenced by the second', async () => {
  const streams = await startStreams()
  const late = startRun(streams.url, 1)
  const heir = startRun(streams.url, 2)
  heir.append(attempt(2), text('new'))
  await heir.writer.flush()
  const before = streams.items
  late.append(attempt(1), text('old'))
  await expect(late.writer.flush()).rejects.toBeInstanceOf(FencedError)
  expect(streams.items).toEqual(before)
})

test('a closed stream takes no more: whoever comes back to it is fenced', async () => {
  const streams = await startStreams()
  const run = startRun(streams.url, 1)
  run.append(attempt(1), text('all'))
  await run.writer.flush()
  await run.writer.end(done)
  const later = startRun(streams.url, 2, {}, run.transcript)
  later.append(attempt(2), text('more'))
  await expect(later.writer.flush()).rejects.toBeInstanceOf(FencedError)
})

test.each(['sse', 'long-poll'] as const)(
  'a server restarted without its data: a reader by %s sees the text once, not rewritten',
  async (live) => {
    const streams = await startStreams()
    const reader = watch(streams.url, { live })
    const run = startRun(streams.url, 1)
    run.append(attempt(1), text('before '))
    await run.writer.flush()
    run.append(text('and '))
    await reader.sees('before and ')
    await streams.loseData()
    run.append(text('after'))
    await run.writer.flush()
    await reader.sees('before and after')
    run.append({ type: 'step-end', step: 0 })
    await run.writer.end(done)
    expect(await reader.ended).toBe('before and after')
    expect(reader.updates.some((update) => update.rewritten)).toBe(false)
    expect(await watch(streams.url, { live }).ended).toBe('before and after')
  },
)

test('a log written anew and already longer than the old one is not read from its middle', async () => {
  const streams = await startStreams()
  const run = startRun(streams.url, 1)
  run.append(attempt(1), text('12345 '))
  await run.writer.flush()
  let down = false
  const flaky: typeof fetch = (url, init) =>
    down ? Promise.reject(new Error('offline')) : fetch(url, init)
  const reader = watch(streams.url, { fetch: flaky })
  await reader.sees('12345 ')
  down = true
  await streams.loseData()
  for (const word of ['a ', 'long ', 'way ', 'further']) {
    run.append(text(word))
    await run.writer.flush()
  }
  down = false
  await reader.sees('12345 a long way further')
})

test('a stale worker that writes a lost stream anew neither shows nor stays', async () => {
  const streams = await startStreams()
  const stale = startRun(streams.url, 1)
  stale.append(attempt(1), text('old'))
  await stale.writer.flush()
  const heir = startRun(streams.url, 2, {}, stale.transcript)
  heir.append(attempt(2), text('new'))
  await heir.writer.flush()
  let lost = false
  let reread = () => {}
  const shown = new Promise<void>((resolve) => (reread = resolve))
  // A long-poll from an offset of the new log says that what lay before it was dealt with.
  const watched: typeof fetch = (url, init) => {
    if (lost && !String(url).includes('offset=-1')) reread()
    return fetch(url, init)
  }
  const reader = watch(streams.url, { live: 'long-poll', fetch: watched })
  await reader.sees('new')
  await streams.loseData()
  stale.append(text('er'))
  await stale.writer.flush()
  lost = true
  await shown
  heir.append(text('est'))
  await heir.writer.flush()
  await reader.sees('newest')
  expect(reader.updates.some((update) => update.rewritten)).toBe(false)
  await watch(streams.url).sees('newest')
})

test('while the server is down nothing is lost, and the run is not disturbed', async () => {
  const streams = await startStreams()
  const reader = watch(streams.url)
  const run = startRun(streams.url, 1)
  run.append(attempt(1), text('a'))
  await reader.sees('a')
  await streams.stop()
  run.append(text('b'), text('c'))
  await expect(
    Promise.race([run.writer.flush(), new Promise((resolve) => setTimeout(resolve, 200, 'waits'))]),
  ).resolves.toBe('waits')
  run.append(text('d'))
  await streams.start()
  await run.writer.end(done)
  expect(await reader.ended).toBe('abcd')
  expect(run.errors).toEqual([])
})

test('a server that never answers again fails the end, not the appends', async () => {
  const streams = await startStreams()
  const run = startRun(streams.url, 1, { giveUpMs: 400 })
  run.append(attempt(1), text('a'))
  await run.writer.flush()
  await streams.stop()
  run.append(text('b'))
  await expect(run.writer.flush()).rejects.toMatchObject({ code: 'STREAM_FAILED' })
  expect(run.errors).toEqual([])
  await expect(run.writer.end(done)).rejects.toMatchObject({ code: 'STREAM_FAILED' })
  expect(run.errors).toHaveLength(1)
  await streams.start()
})

test.each([1, 2, 3])(
  'the answer to request %i is lost: it is repeated, the text is not',
  async (n) => {
    const streams = await startStreams()
    let asked = 0
    const lossy: typeof fetch = async (url, init) => {
      asked += 1
      const lost = asked === n
      const response = await fetch(url, init)
      if (lost) throw new TypeError('connection reset')
      return response
    }
    const reader = watch(streams.url)
    const run = startRun(streams.url, 1, { fetch: lossy })
    run.append(attempt(1), text('one '))
    await run.writer.flush()
    run.append(text('two '))
    await run.writer.flush()
    run.append(text('three'))
    await run.writer.end(done)
    expect(await reader.ended).toBe('one two three')
    expect(reader.updates.some((update) => update.rewritten)).toBe(false)
  },
)

test.each([500, 503, 429])('%i is asked again, 401 is not', async (status) => {
  const streams = await startStreams()
  const run = startRun(streams.url, 1)
  run.append(attempt(1), text('a'))
  await run.writer.flush()
  streams.server.injectFault(PATH, { status, count: 2, method: 'POST' })
  run.append(text('b'))
  await run.writer.flush()
  expect(streams.items.at(-1)).toEqual(text('b'))
  streams.server.injectFault(PATH, { status: 401, method: 'POST' })
  run.append(text('c'))
  await expect(run.writer.flush()).rejects.toMatchObject({ code: 'STREAM_FAILED' })
})

test('what piles up beyond memory gives way to the whole, written once', async () => {
  const streams = await startStreams()
  const run = startRun(streams.url, 1, { maxPendingBytes: 1_000, maxBatchBytes: 200 })
  const reader = watch(streams.url)
  run.append(attempt(1), text('0'))
  await run.writer.flush()
  await streams.stop()
  for (let i = 1; i < 500; i += 1) run.append(text(`,${i}`))
  await streams.start()
  await run.writer.end(done)
  expect(await reader.ended).toBe(Array.from({ length: 500 }, (_, i) => i).join(','))
})

test('a second writer of the same attempt is not taken for a repetition', async () => {
  const streams = await startStreams()
  const run = startRun(streams.url, 2)
  run.append(attempt(2), text('a'))
  await run.writer.flush()
  run.append(text('b'))
  await run.writer.flush()
  run.writer.abort()
  const again = startRun(streams.url, 2, {}, run.transcript)
  again.append(attempt(2, 0, 2), text('c'))
  await again.writer.end(done)
  expect(await watch(streams.url).ended).toBe('abc')
})

test('a network cut in mid-stream costs the reader nothing', async () => {
  const streams = await startStreams()
  const cuts = new Set<AbortController>()
  const cuttable: typeof fetch = (url, init) => {
    const cut = new AbortController()
    cuts.add(cut)
    init?.signal?.addEventListener('abort', () => cut.abort())
    return fetch(url, { ...init, signal: cut.signal })
  }
  const reader = watch(streams.url, { fetch: cuttable })
  const run = startRun(streams.url, 1)
  run.append(attempt(1), text('a'))
  await reader.sees('a')
  for (const cut of cuts) cut.abort()
  run.append(text('b'))
  await reader.sees('ab')
  await run.writer.end(done)
  expect(await reader.ended).toBe('ab')
  expect(reader.updates.some((update) => update.rewritten)).toBe(false)
})

test('a worker dead before it closed its stream: the row ends the reader', async () => {
  const streams = await startStreams()
  const run = startRun(streams.url, 1)
  run.append(attempt(1), text('a'))
  await run.writer.flush()
  run.writer.abort()
  const failed = { type: 'done', status: 'failed', error: 'gave up' } as const
  const settled = vi.fn(() => Promise.resolve(failed))
  const reader = watch(streams.url, { settled, checkSettledMs: 20 })
  expect(await reader.ended).toBe('a')
  expect(reader.last).toMatchObject({ status: 'failed', error: 'gave up' })
})

test('no stream, and a row that is settled: the reader ends at once', async () => {
  const streams = await startStreams()
  const reader = watch(streams.url, {
    settled: () => Promise.resolve(done),
    checkSettledMs: 60_000,
  })
  expect(await reader.ended).toBe('')
  expect(reader.last?.status).toBe('completed')
})

test('a row that cannot be asked does not end or disturb a reader', async () => {
  const streams = await startStreams()
  const settled = vi.fn(() => Promise.reject(new Error('offline')))
  const reader = watch(streams.url, { settled, checkSettledMs: 5 })
  await vi.waitFor(() => expect(settled.mock.calls.length).toBeGreaterThan(1))
  const run = startRun(streams.url, 1)
  run.append(attempt(1), text('a'))
  await reader.sees('a')
  await run.writer.end(done)
  expect(await reader.ended).toBe('a')
})

test.each(['sse', 'long-poll'] as const)(
  'an aborted reader by %s leaves no connection and no timer behind',
  async (live) => {
    const streams = await startStreams()
    const run = startRun(streams.url, 1)
    run.append(attempt(1), text('a'))
    await run.writer.flush()
    const timers = trackTimers()
    const stop = new AbortController()
    let open = 0
    const counted: typeof fetch = async (url, init) => {
      open += 1
      init?.signal?.addEventListener('abort', () => (open -= 1), { once: true })
      return fetch(url, init)
    }
    const address = { streamsUrl: streams.url, generationId: GENERATION }
    const options = { ...address, live, fetch: counted, settled: () => Promise.resolve(undefined) }
    for await (const update of readTranscript({ ...options, signal: stop.signal })) {
      expect(update.appended).toBe('a')
      expect(timers.size).toBeGreaterThan(0)
      setImmediate(() => stop.abort())
    }
    expect(open).toBeLessThanOrEqual(0)
    expect(timers.size).toBe(0)
  },
)

/** The library's timers that neither fired nor were cleared; the server's and fetch's do not count. */
function trackTimers(): Set<unknown> {
  const running = new Set<unknown>()
  const { setTimeout: set, clearTimeout: clear } = globalThis
  vi.stubGlobal('setTimeout', (run: () => void, ms: number) => {
    const timer = set(() => {
      running.delete(timer)
      run()
    }, ms)
    if (new Error().stack?.includes('/src/streams/')) running.add(timer)
    return timer
  })
  vi.stubGlobal('clearTimeout', (timer: NodeJS.Timeout) => {
    running.delete(timer)
    clear(timer)
  })
  onTestFinished(() => void vi.unstubAllGlobals())
  return running
}
