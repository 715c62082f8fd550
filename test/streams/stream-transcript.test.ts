/** Writer and reader over a real stream server: one text, whoever looks and whenever. */
import { describe, expect, test } from 'vitest'
import { attempt, done, startRun, startStreams, text, watch, PATH } from './stream-world.js'

const LIVE = ['sse', 'long-poll'] as const

describe.each(LIVE)('by %s', (live) => {
  test('a reader that was there before the stream sees the text grow and end', async () => {
    const streams = await startStreams()
    const reader = watch(streams.url, { live })
    const run = startRun(streams.url, 1)
    run.append(attempt(1), text('Hel'))
    await reader.sees('Hel')
    run.append(text('lo'))
    await reader.sees('Hello')
    run.append({ type: 'step-end', step: 0 }, text('World', 1))
    await run.writer.end(done)
    expect(await reader.ended).toBe('Hello\n\nWorld')
    expect(reader.last?.status).toBe('completed')
    expect(reader.updates.every((update) => !update.rewritten)).toBe(true)
  })

  test('a late reader and a reloaded one get the same text once', async () => {
    const streams = await startStreams()
    const run = startRun(streams.url, 1)
    run.append(attempt(1), text('one '))
    await run.writer.flush()
    const first = watch(streams.url, { live })
    await first.sees('one ')
    first.stop()
    expect(await first.ended).toBe('one ')
    run.append(text('two '))
    await run.writer.flush()
    const reloaded = watch(streams.url, { live })
    await reloaded.sees('one two ')
    run.append(text('three'))
    await run.writer.end(done)
    expect(await reloaded.ended).toBe('one two three')
    expect(await watch(streams.url, { live }).ended).toBe('one two three')
  })

  test.each([
    { keep: 0, wanted: 'Once more' },
    { keep: 5, wanted: 'HalfwOnce more' },
  ])('a takeover that keeps $keep leaves one coherent text', async ({ keep, wanted }) => {
    const streams = await startStreams()
    const reader = watch(streams.url, { live })
    const dead = startRun(streams.url, 1)
    dead.append(attempt(1), text('Halfway th'))
    await dead.writer.flush()
    await reader.sees('Halfway th')
    const heir = startRun(streams.url, 2, {}, dead.transcript)
    heir.append(attempt(2, 0, keep), text('Once more'))
    await heir.writer.end(done)
    expect(await reader.ended).toBe(wanted)
    expect(await watch(streams.url, { live }).ended).toBe(wanted)
    expect(reader.updates.some((update) => update.rewritten)).toBe(true)
  })
})

test('tool calls arrive with their arguments and results', async () => {
  const streams = await startStreams()
  const run = startRun(streams.url, 1)
  run.append(
    attempt(1),
    { type: 'thinking', step: 0, delta: 'hm' },
    { type: 'tool-call-start', step: 0, id: 'c1', name: 'add' },
    { type: 'tool-call-args', step: 0, id: 'c1', delta: '{"a":' },
    { type: 'tool-call-args', step: 0, id: 'c1', delta: '1}\n\u2028' },
    { type: 'tool-call-end', step: 0, id: 'c1' },
  )
  await run.writer.flush()
  const result = { sum: 1 }
  run.append({ type: 'tool-result', step: 0, id: 'c1', name: 'add', status: 'completed', result })
  await run.writer.end(done)
  const reader = watch(streams.url)
  await reader.ended
  expect(reader.last?.steps[0]).toEqual({
    text: '',
    thinking: 'hm',
    toolCalls: [{ id: 'c1', name: 'add', args: '{"a":1}\n\u2028', state: 'completed', result }],
    ended: false,
  })
})

test('a turn that ends before its first batch makes no request', async () => {
  const streams = await startStreams()
  const never: typeof fetch = () => Promise.reject(new Error('asked'))
  const run = startRun(streams.url, 1, { lingerMs: 5_000, fetch: never })
  run.append(attempt(1), text('short'))
  await run.writer.end(done)
  await run.writer.flush()
  expect(run.writer.written).toBe(false)
  expect(streams.server.store.has(PATH)).toBe(false)
})

test('a short later attempt closes the stream of the one before, and makes none', async () => {
  const streams = await startStreams()
  const nothing = startRun(streams.url, 2, { lingerMs: 5_000 })
  nothing.append(attempt(2), text('x'))
  await nothing.writer.end(done)
  expect(streams.server.store.has(PATH)).toBe(false)

  const first = startRun(streams.url, 1)
  first.append(attempt(1), text('x'))
  await first.writer.flush()
  const reader = watch(streams.url)
  const second = startRun(streams.url, 3, { lingerMs: 5_000 }, first.transcript)
  second.append(attempt(3, 0, 1), text('y'))
  await second.writer.end(done)
  expect(await reader.ended).toBe('xy')
})

test('the first batch is one request, each further one as well, the last closes', async () => {
  const streams = await startStreams()
  const asked: string[] = []
  const counting: typeof fetch = (url, init) => {
    asked.push(String(init?.method))
    return fetch(url, init)
  }
  const run = startRun(streams.url, 1, { fetch: counting })
  run.append(attempt(1), text('a'))
  await run.writer.flush()
  run.append(text('b'))
  await run.writer.flush()
  await run.writer.end(done)
  expect(asked).toEqual(['PUT', 'POST', 'POST'])
  expect(streams.server.store.get(PATH)?.closed).toBe(true)
})

test('while a batch is under way, what comes meanwhile becomes one batch', async () => {
  const streams = await startStreams()
  let release = () => {}
  const held = new Promise<void>((resolve) => (release = resolve))
  let underWay = () => {}
  const begun = new Promise<void>((resolve) => (underWay = resolve))
  let asked = 0
  const slow: typeof fetch = async (url, init) => {
    asked += 1
    underWay()
    if (asked === 1) await held
    return fetch(url, init)
  }
  const run = startRun(streams.url, 1, { fetch: slow })
  run.append(attempt(1), text('0'))
  await begun
  for (let i = 1; i < 50; i += 1) run.append(text(' '))
  release()
  await run.writer.flush()
  expect(asked).toBe(2)
  expect(streams.items).toEqual([attempt(1), text('0'), text(' '.repeat(49))])
})
