/** Chunks as text: for rows at hand, and as parts of a live query that grow with each inserted row. */
import {
  createCollection,
  createLiveQueryCollection,
  localOnlyCollectionOptions,
} from '@tanstack/db'
import fc from 'fast-check'
import { expect, expectTypeOf, test } from 'vitest'
import { chunksOf, chunksToText, chunkTextOf } from '../../src/generation/materialize-chunks.js'

interface Chunk {
  id: string
  generationId: string
  index: number
  type: 'text' | 'thinking'
  content: string
  attempt: number
}

const chunk = (
  generationId: string,
  index: number,
  content: string,
  type: Chunk['type'] = 'text',
) => ({
  id: `${generationId}-${index}`,
  generationId,
  index,
  type,
  content,
  attempt: 1,
})

test('any order, any repeats: the same text', () => {
  const parts = fc.array(fc.tuple(fc.string(), fc.boolean()), { maxLength: 20 })
  fc.assert(
    fc.property(parts, fc.infiniteStream(fc.nat()), (told, seeds) => {
      const rows = told.map(([text, thinks], index) =>
        chunk('g', index, text, thinks ? 'thinking' : 'text'),
      )
      const arrived = [...rows, ...rows]
        .map((row) => ({ row, place: seeds.next().value as number }))
        .toSorted((a, b) => a.place - b.place)
        .map(({ row }) => row)
      const text = told.flatMap(([part, thinks]) => (thinks ? [] : [part])).join('')
      expect(chunksToText(arrived)).toBe(text)
    }),
  )
})

test('a live query’s generations carry their chunks and their text, and both grow', async () => {
  const generations = createCollection(
    localOnlyCollectionOptions<{ id: string }, string>({
      id: 'generations',
      getKey: (row) => row.id,
      initialData: [{ id: 'g' }, { id: 'h' }],
    }),
  )
  const chunks = createCollection(
    localOnlyCollectionOptions<Chunk, string>({
      id: 'chunks',
      getKey: (row) => row.id,
      initialData: [chunk('g', 1, 'B'), chunk('g', 0, 'A'), chunk('h', 0, 'hm', 'thinking')],
    }),
  )
  const live = createLiveQueryCollection((q) =>
    q.from({ gen: generations }).select(({ gen }) => ({
      id: gen.id,
      chunks: chunksOf(chunks, gen.id),
      text: chunkTextOf(chunks, gen.id),
    })),
  )
  await live.preload()
  const of = (id: string) => live.toArray.find((row) => row.id === id)!
  expect(of('g').text).toBe('AB')
  expect(of('h').text).toBe('')
  expect(of('h').chunks.map(({ content }) => content)).toEqual(['hm'])
  const grown = new Promise<void>((resolve) => {
    const off = live.subscribeChanges(() => {
      if (of('g').text !== 'ABC') return
      off.unsubscribe()
      resolve()
    })
  })
  chunks.insert(chunk('g', 2, 'C'))
  await grown
  expect(of('g').chunks.map(({ index }) => index)).toEqual([0, 1, 2])
  expectTypeOf(of('g').text).toEqualTypeOf<string>()
  expectTypeOf(of('g').chunks[0]!.attempt).toEqualTypeOf<number>()
})
