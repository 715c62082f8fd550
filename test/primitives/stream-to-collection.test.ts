/** streamToCollection over local collections: order, back-pressure, ends, and what a refused row does. */
import { createCollection, localOnlyCollectionOptions } from '@tanstack/db'
import type { StreamChunk } from '@tanstack/ai'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isContentChunk, mapChunkType } from '../../src/generation/chunk-type.js'
import { streamToCollection } from '../../src/generation/stream-to-collection.js'
import { deferred } from '../../src/internal/abort.js'

interface Row {
  id: string
  generationId: string
  index: number
  type: string
  content: string
  isFinal?: boolean
}

function rowsCollection(onInsert?: () => Promise<void>) {
  return createCollection(
    localOnlyCollectionOptions<Row, string>({
      id: crypto.randomUUID(),
      getKey: (row) => row.id,
      ...(onInsert && { onInsert }),
    }),
  )
}

const transform = (chunk: StreamChunk, index: number, generationId: string): Row => ({
  id: `${generationId}-${index}`,
  generationId,
  index,
  type: mapChunkType(chunk.type),
  content: 'delta' in chunk && typeof chunk.delta === 'string' ? chunk.delta : '',
})

const final = (index: number, generationId: string, end: { status: string }): Row => ({
  id: `${generationId}-${index}`,
  generationId,
  index,
  type: end.status,
  content: '',
  isFinal: true,
})

const text = (delta: string, messageId = 'm') =>
  ({ type: 'TEXT_MESSAGE_CONTENT', messageId, delta }) as StreamChunk
const other = (type: string) => ({ type }) as StreamChunk

async function* streamOf(...chunks: StreamChunk[]): AsyncGenerator<StreamChunk> {
  yield* chunks
}

const inOrder = (rows: Iterable<Row>) => [...rows].toSorted((a, b) => a.index - b.index)
const textOf = (rows: Iterable<Row>) =>
  inOrder(rows)
    .filter((row) => row.type === 'text')
    .map((row) => row.content)
    .join('')

describe('streamToCollection', () => {
  test('writes a row per chunk, indexes from 0 without a gap, and resolves with the text', async () => {
    const collection = rowsCollection()
    const stream = streamOf(other('RUN_STARTED'), text('Hel'), text('lo'), other('RUN_FINISHED'))
    const result = await streamToCollection(stream, { collection, generationId: 'g', transform })
    expect(result).toEqual({ content: 'Hello', rows: 4 })
    expect(inOrder(collection.values()).map((row) => row.index)).toEqual([0, 1, 2, 3])
    expect(textOf(collection.values())).toBe('Hello')
  })

  test('a filter leaves chunks out and no index with them; the text is whole all the same', async () => {
    const collection = rowsCollection()
    const stream = streamOf(other('RUN_STARTED'), text('a'), other('STATE_DELTA'), text('b'))
    const options = { collection, generationId: 'g', transform, filter: isContentChunk }
    expect(await streamToCollection(stream, options)).toEqual({ content: 'ab', rows: 2 })
    expect(inOrder(collection.values()).map((row) => row.index)).toEqual([0, 1])
  })

  test('an earlier attempt’s rows are followed, not overwritten', async () => {
    const collection = rowsCollection()
    const options = { collection, generationId: 'g', transform }
    await streamToCollection(streamOf(text('a')), options)
    await streamToCollection(streamOf(text('b')), { ...options, startIndex: 1 })
    expect(textOf(collection.values())).toBe('ab')
  })

  test.for([
    ['completed', streamOf(text('x'))],
    ['failed', streamOf(text('x'), { type: 'RUN_ERROR', message: 'no' } as StreamChunk)],
  ] as const)('the final row says %s', async ([status, stream]) => {
    const collection = rowsCollection()
    const run = streamToCollection(stream, {
      collection,
      generationId: 'g',
      transform,
      final,
      filter: isContentChunk,
    })
    await (status === 'completed'
      ? run
      : expect(run).rejects.toMatchObject({ code: 'PROVIDER_FAILED' }))
    const last = inOrder(collection.values()).at(-1)
    expect(last).toMatchObject({ index: 1, isFinal: true, type: status })
  })

  test('final-only persistence is one row', async () => {
    const collection = rowsCollection()
    const options = { collection, generationId: 'g', transform, persist: 'final' as const }
    await expect(streamToCollection(streamOf(text('x')), options)).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      field: 'final',
    })
    const result = await streamToCollection(streamOf(text('x'), text('y')), {
      ...options,
      final: (index, id, end) => ({ ...final(index, id, end), content: end.content }),
    })
    expect(result).toEqual({ content: 'xy', rows: 1 })
    expect([...collection.values()]).toMatchObject([{ index: 0, content: 'xy', isFinal: true }])
  })

  test('a backend that is slow stops the reading, so the provider waits and nothing piles up', async () => {
    const confirm: (() => void)[] = []
    const collection = rowsCollection(() => new Promise<void>((resolve) => confirm.push(resolve)))
    let pulled = 0
    const waiting = deferred()
    async function* source() {
      for (; pulled < 50; pulled += 1) {
        if (pulled === 3) waiting.resolve()
        yield text('x')
      }
    }
    const run = streamToCollection(source(), {
      collection,
      generationId: 'g',
      transform,
      maxPending: 4,
    })
    await waiting.promise
    expect(pulled).toBeLessThanOrEqual(4)
    const release = setInterval(() => confirm.splice(0).forEach((resolve) => resolve()), 1)
    expect(await run).toEqual({ content: 'x'.repeat(50), rows: 50 })
    clearInterval(release)
  })

  test('a refused row ends it with that error and closes the stream', async () => {
    let closed = false
    const collection = rowsCollection(() => Promise.reject(new Error('disk full')))
    async function* endless() {
      try {
        for (;;) yield text('x')
      } finally {
        closed = true
      }
    }
    const run = streamToCollection(endless(), {
      collection,
      generationId: 'g',
      transform,
      maxPending: 1,
    })
    await expect(run).rejects.toThrow('disk full')
    expect(closed).toBe(true)
  })

  test.for(['keep', 'delete'] as const)(
    'an abort ends a stream that ignores it; its rows: %s',
    async (onCancelled) => {
      const collection = rowsCollection()
      const abort = new AbortController()
      async function* deaf() {
        yield text('half')
        abort.abort()
        await new Promise(() => {})
      }
      const run = streamToCollection(deaf(), {
        collection,
        generationId: 'g',
        transform,
        final,
        onCancelled,
        signal: abort.signal,
      })
      await expect(run).rejects.toMatchObject({ code: 'CANCELLED' })
      const types = inOrder(collection.values()).map((row) => row.type)
      expect(types).toEqual(onCancelled === 'keep' ? ['text', 'cancelled'] : [])
    },
  )

  test('a transform that gives another index is told so', async () => {
    const run = streamToCollection(streamOf(text('x')), {
      collection: rowsCollection(),
      generationId: 'g',
      transform: (chunk, index, id) => ({ ...transform(chunk, index, id), index: 7 }),
    })
    await expect(run).rejects.toMatchObject({ code: 'INVALID_OPTION', field: 'transform' })
  })

  test('packing merges neighbours of one message only, and loses nothing', async () => {
    const collection = rowsCollection()
    const stream = streamOf(
      text('a'),
      text('b'),
      text('c', 'n'),
      other('TOOL_CALL_START'),
      text('d'),
    )
    const options = { collection, generationId: 'g', transform, packMs: 60_000 }
    expect(await streamToCollection(stream, options)).toEqual({ content: 'abcd', rows: 4 })
    expect(inOrder(collection.values()).map((row) => row.content)).toEqual(['ab', 'c', '', 'd'])
  })

  test('any number of generations side by side, packed or not: each has its own text in order', async () => {
    const deltas = fc.array(fc.string({ maxLength: 6 }), { maxLength: 30 })
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(deltas, fc.boolean()), { maxLength: 6 }), async (runs) => {
        const collection = rowsCollection()
        await Promise.all(
          runs.map(([parts, packed], run) =>
            streamToCollection(streamOf(...parts.map((part) => text(part))), {
              collection,
              generationId: `g${run}`,
              transform,
              packMs: packed ? 60_000 : 0,
              maxChunkChars: 8,
            }),
          ),
        )
        for (const [run, [parts]] of runs.entries()) {
          const rows = [...collection.values()].filter((row) => row.generationId === `g${run}`)
          expect(textOf(rows)).toBe(parts.join(''))
          expect(inOrder(rows).map((row) => row.index)).toEqual(rows.map((_, place) => place))
        }
      }),
      { numRuns: 50 },
    )
  })
})
