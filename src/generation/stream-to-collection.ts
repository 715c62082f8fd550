/**
 * A model's stream as rows: each chunk is one append-only row of the host's own collection, with an index
 * that only grows, so `orderBy(index)` is the text whatever order the rows arrive in.
 *
 * - Rows are written in order; at most `maxPending` of them wait for their backend's word. Then the stream
 *   is not read on: `chat()` is pull-driven, so a slow backend slows the provider and fills no memory.
 * - The promise resolves when every row is confirmed. A refused row ends it with that error, and the
 *   stream is closed.
 * - The end is a row of its own (`final`), written after the last chunk, also when the stream was cut: then
 *   it says so. Without it the end is the generation's status, as the RFC allows.
 *
 * Not this: the worker's own live text, which costs no row per token (`src/streams/`).
 */
import type { StreamChunk } from '@tanstack/ai'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Collection, UtilsRecord } from '@tanstack/db'
import type { ChunkContract } from '../contract/shapes.js'
import { AiDbError, toError } from '../errors.js'
import { persisted } from '../internal/persisted.js'
import { requireOwnCopy } from '../internal/source-collections.js'
import type { KeepsLiterals } from '../tools/keeps-literals.js'
import { ChunkPacker } from './chunk-packer.js'

/** How a stream ended. */
export interface StreamEnd {
  /** The text of all its messages. */
  content: string
  status: 'completed' | 'failed' | 'cancelled'
  /** Why it failed. */
  error?: string
}

export interface StreamToCollectionOptions<
  TRow extends ChunkContract,
  TUtils extends UtilsRecord = UtilsRecord,
  TSchema extends StandardSchemaV1 = StandardSchemaV1,
  TInsert extends object = TRow,
  TKey extends string | number = string,
> extends ChunkOptions<TInsert> {
  /** Where the rows go; keyed by the chunk's id. Its schema is the host's: `transform` makes the rows. */
  collection: Collection<TRow, TKey, TUtils, TSchema, TInsert>
}

/** All but the collection. */
export interface ChunkOptions<TInsert extends object> {
  generationId: string
  /** One chunk as a row; `index` is its place. Must give the row that index. */
  transform: (chunk: StreamChunk, index: number, generationId: string) => TInsert | KeepsLiterals
  /** Which chunks become rows; text counts towards `content` in any case. @default all */
  filter?: (chunk: StreamChunk) => boolean
  /** The last row, for collections that mark it (`isFinal`). */
  final?: (index: number, generationId: string, end: StreamEnd) => TInsert | KeepsLiterals
  /** `final`: only the last row is written. @default 'chunks' */
  persist?: 'chunks' | 'final'
  /** Index of the first row: one more than the last row of an earlier attempt. @default 0 */
  startIndex?: number
  /** How long neighbouring deltas are gathered into one row, in ms; 0: a row each. @default 0 */
  packMs?: number
  /** A packed row is not longer, in characters. @default 4096 */
  maxChunkChars?: number
  /** Rows that may wait for confirmation before the stream is read on. @default 64 */
  maxPending?: number
  /** Tells a cut stream from a finished one, and stops reading. */
  signal?: AbortSignal
  /** What becomes of the rows of a cancelled stream. @default 'keep' */
  onCancelled?: 'keep' | 'delete'
  /** Stores a row, where the collection cannot by itself. @default `collection.insert(row)` */
  insert?: (row: TInsert) => unknown
  /** Deletes rows by their ids, where the collection cannot by itself. @default `collection.delete(ids)` */
  delete?: (ids: string[]) => unknown
}

export interface StreamToCollectionResult {
  content: string
  /** Rows written, the final one included. */
  rows: number
}

/**
 * Writes a stream's chunks to a collection.
 *
 * @throws AiDbError PROVIDER_FAILED when the stream ended in RUN_ERROR; CANCELLED when `signal` aborted;
 *   INVALID_OPTION; what the collection refused a row with.
 */
export async function streamToCollection<
  TRow extends ChunkContract,
  TUtils extends UtilsRecord,
  TSchema extends StandardSchemaV1,
  TInsert extends object,
  TKey extends string | number,
>(
  stream: AsyncIterable<StreamChunk>,
  options: StreamToCollectionOptions<TRow, TUtils, TSchema, TInsert, TKey>,
): Promise<StreamToCollectionResult> {
  return write(stream, options as unknown as ErasedOptions)
}

type ErasedOptions = ChunkOptions<ChunkContract> & { collection: Collection<ChunkContract, string> }

async function write(
  stream: AsyncIterable<StreamChunk>,
  options: ErasedOptions,
): Promise<StreamToCollectionResult> {
  checkOptions(options)
  const rows = new ChunkRows(options)
  const { packMs = 0, maxChunkChars = 4_096, persist = 'chunks', filter, signal } = options
  const packer = new ChunkPacker(packMs, maxChunkChars, (chunk) => {
    rows.append((index) => options.transform(chunk, index, options.generationId))
  })
  const end: StreamEnd = { content: '', status: 'completed' }
  let thrown: Error | undefined
  try {
    for await (const chunk of untilAborted(stream, signal)) {
      if (chunk.type === 'TEXT_MESSAGE_CONTENT') end.content += chunk.delta
      if (chunk.type === 'RUN_ERROR') {
        Object.assign(end, { status: 'failed', error: chunk.message })
        thrown = new AiDbError('PROVIDER_FAILED', failure(chunk.message), { cause: chunk })
      }
      if (persist === 'chunks' && (filter?.(chunk) ?? true)) packer.take(chunk)
      await rows.room()
    }
  } catch (error) {
    thrown = toError(error)
    Object.assign(end, { status: 'failed', error: thrown.message })
  }
  packer.flush()
  if (signal?.aborted) {
    Object.assign(end, { status: 'cancelled', error: undefined })
    thrown = new AiDbError('CANCELLED', 'The stream was cancelled.', { cause: signal.reason })
  }
  await finish(rows, options, end)
  if (thrown) throw thrown
  return { content: end.content, rows: rows.written }
}

async function finish(
  rows: ChunkRows,
  { final, generationId, onCancelled }: ErasedOptions,
  end: StreamEnd,
): Promise<void> {
  if (end.status === 'cancelled' && onCancelled === 'delete') return rows.deleteAll()
  if (final) rows.append((index) => final(index, generationId, end))
  await rows.settled()
}

/** Rows on their way, in order. The first that is refused stops all that would follow. */
class ChunkRows {
  written = 0
  readonly #collection: ErasedOptions['collection']
  readonly #insert: (row: ChunkContract) => unknown
  readonly #delete: (ids: string[]) => unknown
  readonly #maxPending: number
  readonly #pending = new Set<Promise<unknown>>()
  readonly #ids: string[] = []
  #nextIndex: number
  #refused: { error: unknown } | undefined

  constructor(options: ErasedOptions) {
    const { collection } = options
    this.#collection = collection
    this.#insert = options.insert ?? ((row) => collection.insert(row))
    this.#delete = options.delete ?? ((ids) => collection.delete(ids))
    this.#maxPending = options.maxPending ?? 64
    this.#nextIndex = options.startIndex ?? 0
  }

  append(makeRow: (index: number) => ChunkContract | KeepsLiterals): void {
    if (this.#refused) return
    try {
      const row = makeRow(this.#nextIndex) as ChunkContract
      requireIndex(row, this.#nextIndex)
      const inserted = persisted(this.#insert(row))
      this.#ids.push(row.id)
      this.#nextIndex += 1
      this.written += 1
      this.#watch(inserted)
    } catch (error) {
      this.#refused ??= { error }
    }
  }

  /** Resolves when another row may be written; rejects if one was refused. */
  async room(): Promise<void> {
    while (this.#pending.size >= this.#maxPending && !this.#refused)
      await Promise.race(this.#pending)
    if (this.#refused) throw this.#refused.error
  }

  async settled(): Promise<void> {
    await Promise.all(this.#pending)
    if (this.#refused) throw this.#refused.error
  }

  async deleteAll(): Promise<void> {
    await Promise.all(this.#pending)
    const there = this.#ids.filter((id) => this.#collection.has(id))
    if (there.length > 0) await persisted(this.#delete(there))
  }

  #watch(inserted: Promise<unknown>): void {
    const watched: Promise<unknown> = inserted
      .catch((error: unknown) => {
        this.#refused ??= { error }
      })
      .finally(() => this.#pending.delete(watched))
    this.#pending.add(watched)
  }
}

function requireIndex(row: ChunkContract, index: number): void {
  if (row.index === index) return
  throw new AiDbError(
    'INVALID_OPTION',
    `transform gave the chunk index ${String(row.index)} where its place is ${index}. Give the row the index it is called with.`,
    { field: 'transform' },
  )
}

function checkOptions(options: ErasedOptions): void {
  const { collection, persist, final, maxPending, startIndex } = options
  requireOwnCopy('streamToCollection()', 'collection', collection)
  const refuse = (field: string, problem: string) => {
    throw new AiDbError('INVALID_OPTION', problem, { field })
  }
  if (persist === 'final' && !final) {
    refuse('final', "persist: 'final' writes one row and there is no `final` to make it. Give one.")
  }
  if (maxPending !== undefined && !(maxPending >= 1)) {
    refuse('maxPending', `maxPending is ${maxPending}. Give 1 or more.`)
  }
  if (startIndex !== undefined && !(Number.isInteger(startIndex) && startIndex >= 0)) {
    refuse('startIndex', `startIndex is ${startIndex}. Give a whole number from 0.`)
  }
}

/** The stream, left behind when the signal aborts: a provider that ignores it holds nobody up. */
async function* untilAborted(
  stream: AsyncIterable<StreamChunk>,
  signal: AbortSignal | undefined,
): AsyncGenerator<StreamChunk, void> {
  const iterator = stream[Symbol.asyncIterator]()
  let abort = () => {}
  const aborted = new Promise<'aborted'>((resolve) => (abort = () => resolve('aborted')))
  if (signal?.aborted) abort()
  signal?.addEventListener('abort', abort)
  let done = false
  try {
    for (;;) {
      const next = await Promise.race([iterator.next(), aborted])
      if (next === 'aborted') return
      if (next.done) {
        done = true
        return
      }
      yield next.value
    }
  } finally {
    signal?.removeEventListener('abort', abort)
    // Not awaited: a stream that hangs in its own clean-up would hang this as well.
    if (!done) void Promise.resolve(iterator.return?.()).catch(() => {})
  }
}

function failure(told: string): string {
  return `The model provider failed: ${told}. Check the adapter's key, model and limits.`
}
