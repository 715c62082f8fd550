/** Packed live text as rows, under the fence: a stale attempt inserts nothing. */
import { FencedError } from '../errors.js'
import type { Database } from '../internal/database.js'
import { jsonText, statement } from '../internal/statement.js'

export interface NewChunk {
  index: number
  attempt: number
  step: number
  type: string
  content: string
}

// The row lock makes the fence hold to the end of this statement: a claim waits for it.
export const insertChunksStatement = statement<
  [generationId: string, attempt: number, chunks: string],
  { held: boolean }
>(
  'insert_chunks',
  (t) => `
  with held as materialized (
    select id, session_id from ${t.generations}
     where id = $1::text and attempt = $2::int and status = 'generating' for share),
  written as (
    insert into ${t.chunks} (generation_id, session_id, index, attempt, step, type, content)
    select held.id, held.session_id, c.index, c.attempt, c.step, c.type, c.content
      from held, jsonb_to_recordset($3::text::jsonb)
        as c (index int, attempt int, step int, type text, content text)
    on conflict (generation_id, index) do nothing)
  select true as held from held`,
)

/** @throws FencedError when the generation is no longer held at this attempt. */
export async function insertChunks(
  db: Database,
  generationId: string,
  attempt: number,
  chunks: readonly NewChunk[],
): Promise<void> {
  const [row] = await db.query(insertChunksStatement, [generationId, attempt, jsonText(chunks)])
  if (!row) throw new FencedError(`Generation ${generationId}`, attempt)
}
