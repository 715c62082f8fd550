/** The fallback without a stream server: the same transcript, carried by rows. */
import { expect, test } from 'vitest'
import fc from 'fast-check'
import { FencedError } from '../../src/errors.js'
import { readPackedTranscript } from '../../src/streams/packed-reader.js'
import {
  createPackedWriter,
  itemsFromChunks,
  type PackedChunk,
} from '../../src/streams/packed-writer.js'
import {
  applyItems,
  coalesce,
  emptyTranscript,
  transcriptText,
  type TranscriptItem,
} from '../../src/streams/transcript.js'

const attempt = (number: number, keep = 0): TranscriptItem => ({
  type: 'attempt',
  attempt: number,
  step: 0,
  keep,
})
const text = (delta: string): TranscriptItem => ({ type: 'text', step: 0, delta })
const done = { type: 'done', status: 'completed' } as const

/** A table of chunks that refuses an index it has, as the database's unique index does. */
function chunkTable() {
  const rows: PackedChunk[] = []
  const waiting = new Set<() => void>()
  return {
    rows,
    inserts: 0,
    insert(added: PackedChunk[]) {
      this.inserts += 1
      for (const row of added) if (!rows.some((r) => r.index === row.index)) rows.push(row)
      for (const wake of waiting) wake()
      return Promise.resolve()
    },
    load: (after: number) => Promise.resolve({ rows: rows.filter((row) => row.index > after) }),
    wait: (signal: AbortSignal) =>
      new Promise<void>((resolve) => {
        waiting.add(resolve)
        signal.addEventListener('abort', () => resolve(), { once: true })
      }),
  }
}

test('tokens become few rows, which give the transcript back', async () => {
  const table = chunkTable()
  const options = { startIndex: 0, flushMs: 5 }
  const writer = createPackedWriter({ ...options, insert: (rows) => table.insert(rows) })
  const items: TranscriptItem[] = [
    attempt(1),
    ...Array.from({ length: 200 }, (_, i) => text(`${i} `)),
    { type: 'tool-call-start', step: 0, id: 'a', name: 'add' },
    { type: 'tool-call-start', step: 0, id: 'b', name: 'add' },
    { type: 'tool-call-args', step: 0, id: 'a', delta: '1' },
    { type: 'tool-call-args', step: 0, id: 'b', delta: '2' },
    { type: 'tool-call-args', step: 0, id: 'a', delta: '3' },
    { type: 'tool-result', step: 0, id: 'a', name: 'add', status: 'completed', result: [4] },
  ]
  for (const item of items) writer.append(item)
  await writer.flush()
  await writer.end(done)
  expect(table.rows).toHaveLength(9)
  expect(table.rows.map((row) => row.index)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8])
  expect(itemsFromChunks(table.rows)).toEqual([...coalesce(items), done])
})

test('the columns hold: no negative step, the attempt of every row', async () => {
  const table = chunkTable()
  const writer = createPackedWriter({ startIndex: 7, insert: (rows) => table.insert(rows) })
  writer.append({ type: 'attempt', attempt: 3, step: -1, keep: 0 })
  writer.append({ type: 'text', step: 2, delta: 'x' })
  await writer.flush()
  await writer.end(done)
  expect(table.rows.map(({ index, attempt: number, step }) => [index, number, step])).toEqual([
    [7, 3, 0],
    [8, 3, 2],
    [9, 3, 2],
  ])
})

test('any text and any cut of it comes back the same', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.string(), { maxLength: 20 }), fc.nat(30), async (deltas, max) => {
      const table = chunkTable()
      const insert = (rows: PackedChunk[]) => table.insert(rows)
      const writer = createPackedWriter({ startIndex: 0, insert, maxChars: max + 1 })
      const items = [attempt(1), ...deltas.map(text)]
      for (const item of items) writer.append(item)
      await writer.flush()
      writer.abort()
      const read = applyItems(emptyTranscript, itemsFromChunks(table.rows))
      expect(transcriptText(read)).toBe(deltas.join(''))
    }),
    { numRuns: 50 },
  )
})

test('an insert whose answer was lost is repeated with the same rows', async () => {
  const table = chunkTable()
  let failures = 2
  const writer = createPackedWriter({
    startIndex: 0,
    flushMs: 1,
    insert: async (rows) => {
      await table.insert(rows)
      if (failures-- > 0) throw new Error('connection lost')
    },
  })
  writer.append(attempt(1))
  writer.append(text('once'))
  await writer.flush()
  expect(itemsFromChunks(table.rows)).toEqual([attempt(1), text('once')])
  expect(table.inserts).toBe(3)
})

test('a fenced insert stops the writer, tells it once and rejects every flush', async () => {
  const errors: Error[] = []
  let inserts = 0
  const writer = createPackedWriter({
    startIndex: 0,
    flushMs: 1,
    insert: () => Promise.reject(new FencedError(`generation g, insert ${++inserts}`, 1)),
    onError: (error) => errors.push(error),
  })
  writer.append(attempt(1))
  await expect(writer.flush()).rejects.toBeInstanceOf(FencedError)
  writer.append(text('late'))
  await expect(writer.end(done)).rejects.toBeInstanceOf(FencedError)
  expect([errors.length, inserts]).toEqual([1, 1])
})

test('a turn that ends before its first row inserts nothing', async () => {
  const insert = () => Promise.reject(new Error('asked'))
  const writer = createPackedWriter({ startIndex: 0, insert })
  writer.append(attempt(1))
  await writer.end(done)
  expect(writer.written).toBe(false)
})

test('a reader follows two attempts to one text and ends with done', async () => {
  const table = chunkTable()
  const insert = (rows: PackedChunk[]) => table.insert(rows)
  const first = createPackedWriter({ startIndex: 0, flushMs: 1, insert })
  first.append(attempt(1))
  first.append(text('Half of it'))
  await first.flush()
  const signal = new AbortController().signal
  const seen: string[] = []
  for await (const update of readPackedTranscript({
    load: table.load,
    wait: table.wait,
    signal,
  })) {
    seen.push(update.rewritten ? `=${transcriptText(update.transcript)}` : `+${update.appended}`)
    if (seen.length > 1) continue
    const second = createPackedWriter({ startIndex: table.rows.length, flushMs: 1, insert })
    second.append(attempt(2, 4))
    second.append(text(' and all'))
    await second.flush()
    await second.end(done)
  }
  expect(seen).toEqual(['+Half of it', '=Half and all'])
})

test('rows folded away before they were read: the row still ends the reader', async () => {
  const load = () => Promise.resolve({ rows: [], done })
  const updates = []
  for await (const update of readPackedTranscript({ load, pollMs: 1 })) updates.push(update)
  expect(updates.map((update) => update.transcript.status)).toEqual(['completed'])
})

test('an aborted reader ends without an error', async () => {
  const stop = new AbortController()
  const load = () => Promise.resolve({ rows: [] })
  setImmediate(() => stop.abort())
  const updates = readPackedTranscript({ load, signal: stop.signal, pollMs: 60_000 })
  expect(await updates.next()).toEqual({ done: true, value: undefined })
})
