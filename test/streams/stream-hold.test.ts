/** What is held back before a cutover: it leaves with the end, or not at all, and never stays. */
import { expect, test } from 'vitest'
import { attempt, done, startRun, startStreams, text, watch } from './stream-world.js'

/** Another generation's text has made its whole way: whatever was due before has been sent. */
async function anotherIsSeen(url: string): Promise<void> {
  const other = startRun(url, 1, { generationId: 'another' })
  const reader = watch(url, { generationId: 'another' })
  other.append(attempt(1), text('seen'))
  await reader.sees('seen')
  await other.writer.end(done)
}

test('a short turn that holds its text until its end makes no stream', async () => {
  const streams = await startStreams()
  const run = startRun(streams.url, 1, { holdMs: 60_000 })
  run.append(attempt(1), text('short'))
  run.writer.hold()
  await anotherIsSeen(streams.url)
  await run.writer.end(done)
  expect(run.writer.written).toBe(false)
})

test('without the hold the same turn would have been sent', async () => {
  const streams = await startStreams()
  const run = startRun(streams.url, 1)
  run.append(attempt(1), text('short'))
  await anotherIsSeen(streams.url)
  expect(run.writer.written).toBe(true)
})

test('text held for a cutover that takes long is shown all the same', async () => {
  const streams = await startStreams()
  const run = startRun(streams.url, 1)
  const reader = watch(streams.url)
  run.append(attempt(1), text('held'))
  run.writer.hold()
  await reader.sees('held')
  await run.writer.end(done)
  expect(await reader.ended).toBe('held')
})

test('a flush does not wait for a hold', async () => {
  const streams = await startStreams()
  const run = startRun(streams.url, 1)
  run.append(attempt(1), text('now'))
  run.writer.hold()
  await run.writer.flush()
  expect(run.writer.written).toBe(true)
})
