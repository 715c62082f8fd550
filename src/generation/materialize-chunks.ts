/**
 * Chunks back into text: for rows at hand, and as parts of a live query over TanStack DB's includes, where each
 * inserted chunk extends its generation's text. The order is `index`, always; the order of arrival says
 * nothing.
 *
 * An index on the chunks' `generationId` spares each include a scan:
 * `chunks.createIndex((row) => row.generationId)`.
 */
import { concat, eq, Query, toArray, type Collection } from '@tanstack/db'

/** The columns materialising reads. A chunk without a type counts as text. */
export interface TextChunk {
  id: string
  generationId: string
  index: number
  content: string
  type?: string
}

/** The text of one generation's chunks, in any order, twice or once. */
export function chunksToText(chunks: Iterable<TextChunk>): string {
  const byIndex = new Map<number, TextChunk>()
  for (const chunk of chunks) byIndex.set(chunk.index, chunk)
  return [...byIndex.values()]
    .filter(({ type = 'text' }) => type === 'text')
    .toSorted((a, b) => a.index - b.index)
    .map(({ content }) => content)
    .join('')
}

/**
 * For the `select` of a query over generations: `chunks: chunksOf(chunks, gen.id)` is the array of the
 * generation's chunks, in order, kept up to date.
 *
 * @param generationId The id's reference in the query, such as `gen.id`.
 */
export function chunksOf<TRow extends TextChunk, TKey extends string | number>(
  chunks: Collection<TRow, TKey>,
  generationId: unknown,
) {
  return toArray(ordered(chunks, generationId))
}

/** As `chunksOf`: the text of them, as one string that grows. */
export function chunkTextOf<
  TRow extends TextChunk & { type: string },
  TKey extends string | number,
>(chunks: Collection<TRow, TKey>, generationId: unknown) {
  const own = chunks as unknown as Collection<TextChunk & { type: string }, string>
  const texts = ordered(own, generationId)
    .where(({ chunk }) => eq(chunk.type, 'text'))
    .select(({ chunk }) => chunk.content)
  return concat(toArray(texts))
}

function ordered<TRow extends TextChunk, TKey extends string | number>(
  chunks: Collection<TRow, TKey>,
  generationId: unknown,
) {
  return new Query()
    .from({ chunk: chunks as unknown as Collection<TRow & TextChunk, TKey> })
    .where(({ chunk }) => eq(chunk.generationId as never, generationId as never))
    .orderBy(({ chunk }) => chunk.index as never)
}
