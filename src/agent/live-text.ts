/**
 * Live text of one attempt: the transcript as readers see it, and the writer that carries it: to a durable
 * stream, or packed into `chunks` rows where there is no stream server.
 */
import type { ClaimedGeneration } from '../claims/claim-generations.js'
import { insertChunks } from '../claims/insert-chunks.js'
import type { AgentRun } from '../runner/agent-run.js'
import { itemsFromChunks, type PackedChunk } from '../streams/packed-chunks.js'
import { createPackedWriter } from '../streams/packed-writer.js'
import { readTranscriptOnce } from '../streams/read-once.js'
import {
  applyItem,
  applyItems,
  emptyTranscript,
  transcriptToItems,
  type DoneItem,
  type Transcript,
  type TranscriptItem,
} from '../streams/transcript.js'
import { createStreamWriter, type TranscriptWriter } from '../streams/writer.js'
import type { LoadedChunk } from './load.js'

export interface LiveText {
  append(item: TranscriptItem): void
  /**
   * Before a step becomes a row: what of its text has none yet, and the index for the row that takes it.
   * Without a stream server the text is rows already.
   */
  beforeStep(stepText: string): Promise<{ text: string; chunkIndex: number }>
  /** Before the cutover: what is left goes with the end, so a short turn costs no request at all. */
  hold(): void
  /** Ends the transcript and closes the stream; not waited for by the run. */
  end(item: DoneItem): Promise<void>
  /** Sends what is there; the transcript goes on in another attempt. */
  leave(): Promise<void>
  abort(): void
}

export interface OpenLiveText {
  generation: ClaimedGeneration
  run: AgentRun
  chunks: readonly LoadedChunk[]
  /** Units of the current step's text that this attempt keeps. */
  keep: number
  /** What readers have been shown so far, as far as it is known. */
  shown: Transcript
}

export function openLiveText({ generation, run, chunks, keep, shown }: OpenLiveText): LiveText {
  const { id, attempt, step } = generation
  let transcript = shown
  let nextIndex = (chunks.at(-1)?.index ?? -1) + 1
  const packed = run.streams.url === undefined
  const writer = packed
    ? createPackedWriter({
        startIndex: nextIndex,
        insert: async (rows) => {
          await insertChunks(run.db, id, attempt, rows)
          nextIndex = (rows.at(-1)?.index ?? nextIndex) + 1
        },
      })
    : streamWriter(generation, run, () => transcriptToItems(transcript))
  const append = (item: TranscriptItem) => {
    transcript = applyItem(transcript, item)
    writer.append(item)
  }
  append({ type: 'attempt', attempt, step, keep })
  return {
    append,
    beforeStep: async (stepText) => {
      if (!packed) return { text: stepText, chunkIndex: nextIndex++ }
      await writer.flush()
      return { text: '', chunkIndex: nextIndex }
    },
    hold: () => writer.hold(),
    end: (item) => writer.end(item),
    leave: () => writer.flush(),
    abort: () => writer.abort(),
  }
}

/** What the stream shows of a generation that is taken over; undefined when it cannot be read. */
export function shownInStream(
  generation: ClaimedGeneration,
  run: AgentRun,
): Promise<Transcript | undefined> {
  const { url, headers } = run.streams
  if (url === undefined) return Promise.resolve(undefined)
  return readTranscriptOnce({
    streamsUrl: url,
    prefix: run.db.schemaName,
    generationId: generation.id,
    ...(headers && { headers }),
  })
}

/** The transcript as the rows tell it: whole steps, and packed live text. */
export function transcriptOfChunks(chunks: readonly LoadedChunk[]): Transcript {
  return applyItems(emptyTranscript, itemsFromChunks(chunks as readonly PackedChunk[]))
}

function streamWriter(
  generation: ClaimedGeneration,
  run: AgentRun,
  restore: () => readonly TranscriptItem[],
): TranscriptWriter {
  const { url, headers } = run.streams
  return createStreamWriter({
    streamsUrl: url!,
    prefix: run.db.schemaName,
    generationId: generation.id,
    attempt: generation.attempt,
    restore,
    ...(headers && { headers }),
  })
}
