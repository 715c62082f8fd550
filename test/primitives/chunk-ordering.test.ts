/**
 * The order of chunks as a property: however generations are interleaved, cut and gone on with, however often rows are
 * delivered and in which order, and on a device that syncs anew, `index` gives each generation's own text.
 */
import type { StreamChunk } from '@tanstack/ai'
import { eq, queryOnce } from '@tanstack/db'
import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { chunksToText, streamToCollection } from '../../src/index.js'
import { pollUntil } from '../support/poll-until.js'
import { createSyncedDatabase, type SyncedDatabase } from '../support/synced-database.js'
import { electricBackend } from './backend-electric.js'
import { localBackend } from './backend-local.js'
import { chunkRow, finalRow, next, type ChunkRow, type Device } from './backend-world.js'

let database: SyncedDatabase
beforeAll(async () => {
  database = await createSyncedDatabase()
})

interface Generation {
  /** What the model says, a delta each; NUL and lone surrogates are no text in Postgres. */
  deltas: string[]
  /** The first attempt dies after so many; the next one goes on behind its rows. */
  cutAfter: number
  packMs: number
  /** The pace: a turn of the event loop before every so manieth delta. */
  pauseEvery: number
}

const generations: fc.Arbitrary<Generation[]> = fc.array(
  fc.record({
    deltas: fc.array(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 6 }), {
      minLength: 1,
      maxLength: 12,
    }),
    cutAfter: fc.nat(12),
    packMs: fc.constantFrom(0, 0, 1),
    pauseEvery: fc.integer({ min: 1, max: 4 }),
  }),
  { minLength: 1, maxLength: 4 },
)

async function* spoken(
  deltas: readonly string[],
  pauseEvery: number,
  dies: boolean,
): AsyncGenerator<StreamChunk> {
  for (const [index, delta] of deltas.entries()) {
    if (index % pauseEvery === 0) await new Promise((resolve) => setImmediate(resolve))
    yield { type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta } as StreamChunk
  }
  if (dies) throw new Error('the process dies')
}

const rowsOf = ({ collections }: Device, generationId: string) =>
  [...collections.chunks.values()].filter((row) => row.generationId === generationId)

/** Two attempts, as a host that resumes makes them. */
async function write(device: Device, id: string, generation: Generation): Promise<void> {
  const { deltas, cutAfter, packMs, pauseEvery } = generation
  const options = { collection: device.collections.chunks, generationId: id, transform: chunkRow }
  const first = spoken(deltas.slice(0, cutAfter), pauseEvery, true)
  await expect(streamToCollection(first, { ...options, packMs })).rejects.toThrow('dies')
  const startIndex = rowsOf(device, id).length
  const rest = spoken(deltas.slice(cutAfter), pauseEvery, false)
  await streamToCollection(rest, { ...options, packMs, startIndex, final: finalRow })
}

/** A delivery that comes again is refused by its key, and changes nothing. */
async function replay(device: Device, row: ChunkRow): Promise<void> {
  const again = { ...row, content: 'another text' }
  await expect(async () => device.insert('chunks', again)).rejects.toThrow()
}

test.each([
  ['local-only', localBackend, 40],
  ['Electric', () => electricBackend(database), 6],
] as const)(
  '%s: interleaved, replayed, doubled and synced anew, every generation is its own text',
  async (_, makeBackend, numRuns) => {
    const backend = await makeBackend()
    const writer = await backend.open()
    await fc.assert(
      fc.asyncProperty(generations, fc.infiniteStream(fc.nat()), async (all, random) => {
        const ids = all.map(() => next('generation'))
        await Promise.all(all.map((generation, n) => write(writer, ids[n]!, generation)))
        const reader = await backend.open()
        for (const [n, { deltas }] of all.entries()) {
          const [id, text] = [ids[n]!, deltas.join('')]
          const rows = await pollUntil('the final chunk', () => {
            const synced = rowsOf(reader, id)
            return synced.some(({ isFinal }) => isFinal) && synced
          })
          await replay(writer, rows[random.next().value! % rows.length]!)
          const delivered = [...rows, ...rows].toSorted(() => (random.next().value! % 3) - 1)
          expect(chunksToText(delivered)).toBe(text)
          const ordered = await queryOnce((q) =>
            q
              .from({ chunk: reader.collections.chunks })
              .where(({ chunk }) => eq(chunk.generationId, id))
              .orderBy(({ chunk }) => chunk.index),
          )
          expect(ordered.map(({ index }) => index)).toEqual(rows.map((__, index) => index))
          expect(ordered.map(({ content }) => content).join('')).toBe(text)
        }
      }),
      { numRuns },
    )
  },
  120_000,
)
