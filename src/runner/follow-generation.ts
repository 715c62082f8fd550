/**
 * Follows one generation to its end: its live text as it comes, then what its row says. The row wins: a
 * reader that came too late for the stream, or whose stream server lost everything, gets the same text.
 */
import { readGeneration, type GenerationState } from '../claims/read-generation.js'
import { isSettledGeneration, type GenerationStatus } from '../contract/status.js'
import { AiDbError } from '../errors.js'
import { toDatabase, type Database, type DrizzleDatabase } from '../internal/database.js'
import { statement } from '../internal/statement.js'
import { readPackedTranscript } from '../streams/packed-reader.js'
import type { PackedChunk } from '../streams/packed-chunks.js'
import { readTranscript } from '../streams/reader.js'
import {
  emptyTranscript,
  transcriptText,
  type DoneItem,
  type Transcript,
} from '../streams/transcript.js'
import type { TranscriptUpdate } from '../streams/transcript-view.js'
import type { StreamsOptions } from './agent-run.js'

export interface FollowOptions {
  db: DrizzleDatabase
  generationId: string
  /** As the workers have it. Absent: reads `chunks` rows. */
  streams?: StreamsOptions
  /** The Postgres schema of the tables. @default 'ai_db' */
  schema?: string
  /** Ends the iteration, without an error. */
  signal?: AbortSignal
}

export interface GenerationUpdate {
  /** The text so far. */
  text: string
  /** What it gained at its end since the last update; '' if it was rewritten. */
  appended: string
  /** The text is no longer what it was with something added: show it anew. */
  rewritten: boolean
  /** Steps and tool calls as the live text has them; empty when only the row was left. */
  transcript: Transcript
  status: GenerationStatus | 'streaming'
  error?: string
}

/**
 * Iterates over a generation's updates; ends with its last one, whose `status` is settled.
 *
 * @throws AiDbError NOT_FOUND, DATABASE_UNREACHABLE.
 */
export async function* followGeneration(
  options: FollowOptions,
): AsyncGenerator<GenerationUpdate, void> {
  const db = toDatabase(options.db, options.schema === undefined ? {} : { schema: options.schema })
  let shown = ''
  let transcript = emptyTranscript
  if (!(await readGeneration(db, options.generationId))) throw notFound(options.generationId)
  for await (const update of transcriptUpdates(db, options)) {
    transcript = update.transcript
    // The row has the last word, and with it what this update gained.
    if (transcript.status !== 'streaming') break
    shown = transcriptText(transcript)
    const { appended, rewritten } = update
    yield { text: shown, appended, rewritten, transcript, status: 'streaming' }
  }
  if (options.signal?.aborted) return
  const row = await readGeneration(db, options.generationId)
  if (row) yield lastUpdate(row, shown, transcript)
}

/** The row's word at the end; a failed or cancelled run without a message keeps the text it had shown. */
function lastUpdate(row: GenerationState, shown: string, transcript: Transcript): GenerationUpdate {
  const text = row.content ?? (row.status === 'completed' ? '' : transcriptText(transcript))
  const rewritten = !text.startsWith(shown)
  return {
    text,
    appended: rewritten ? '' : text.slice(shown.length),
    rewritten,
    transcript,
    status: row.status,
    ...(row.error !== null && { error: row.error }),
  }
}

function transcriptUpdates(db: Database, options: FollowOptions): AsyncIterable<TranscriptUpdate> {
  const { generationId, signal, streams } = options
  const settled = () => doneOf(db, generationId)
  if (streams?.url === undefined) {
    return readPackedTranscript({
      load: async (afterIndex) => {
        // The row first: rows that appear after it are seen by the next look, never missed.
        const done = await settled()
        const rows = await db.query(chunksAfterStatement, [generationId, afterIndex])
        return { rows, ...(done && { done }) }
      },
      ...(signal && { signal }),
    })
  }
  return readTranscript({
    streamsUrl: streams.url,
    prefix: db.schemaName,
    generationId,
    settled,
    ...(signal && { signal }),
    ...(streams.headers && { headers: streams.headers }),
  })
}

const chunksAfterStatement = statement<[generationId: string, afterIndex: number], PackedChunk>(
  'chunks_after',
  (t) => `
  select index, attempt, step, type, content from ${t.chunks}
   where generation_id = $1::text and index > $2::int order by index`,
)

async function doneOf(db: Database, generationId: string): Promise<DoneItem | undefined> {
  const row = await readGeneration(db, generationId)
  if (!row || !isSettledGeneration(row.status)) return undefined
  const status = row.status as DoneItem['status']
  return { type: 'done', status, ...(row.error !== null && { error: row.error }) }
}

function notFound(generationId: string): AiDbError {
  return new AiDbError('NOT_FOUND', `There is no generation ${generationId}. Check the id.`, {
    field: 'generationId',
  })
}
