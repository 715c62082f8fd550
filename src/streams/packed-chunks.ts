/** Transcript items as rows of the `chunks` table, and back. */
import { coalesce, type TranscriptItem } from './transcript-items.js'

export interface PackedChunk {
  /** Order within the generation, over all attempts. */
  readonly index: number
  readonly attempt: number
  readonly step: number
  readonly type: TranscriptItem['type']
  /** The delta of a text or thinking item; the JSON of any other. */
  readonly content: string
}

/** Numbers rows on from `startIndex`, and remembers whose attempt and step it is in. */
export class ChunkPacker {
  #index: number
  #attempt = 1
  #step = 0

  constructor(startIndex: number) {
    this.#index = startIndex
  }

  pack(items: readonly TranscriptItem[]): PackedChunk[] {
    return coalesce(items).map((item) => {
      if (item.type === 'attempt') this.#attempt = item.attempt
      // A restored log begins before step 0; the column does not.
      if ('step' in item) this.#step = Math.max(0, item.step)
      const content =
        item.type === 'text' || item.type === 'thinking' ? item.delta : JSON.stringify(item)
      const { type } = item
      return { index: this.#index++, attempt: this.#attempt, step: this.#step, type, content }
    })
  }
}

/** What `ChunkPacker` packed, in the rows' order. */
export function itemsFromChunks(rows: readonly PackedChunk[]): TranscriptItem[] {
  return rows.map(({ type, step, content }) =>
    type === 'text' || type === 'thinking'
      ? { type, step, delta: content }
      : (JSON.parse(content) as TranscriptItem),
  )
}
