/** Ours conform: claims of tool calls in Postgres, and both bridges of live text, as `electric-ai-db/testing` asks. */
import { beforeAll, describe, inject, onTestFinished, test } from 'vitest'
import { insertChunks } from '../../src/claims/insert-chunks.js'
import { postgresToolClaims } from '../../src/claims/postgres-tool-claims.js'
import { createStore } from '../../src/claims/store.js'
import { toDatabase } from '../../src/internal/database.js'
import { createSession } from '../../src/sessions/create-session.js'
import { readPackedTranscript } from '../../src/streams/packed-reader.js'
import { createPackedWriter, type PackedChunk } from '../../src/streams/packed-writer.js'
import { readTranscript } from '../../src/streams/reader.js'
import { createStreamWriter } from '../../src/streams/writer.js'
import {
  toolClaimsConformance,
  transcriptConformance,
  type ToolClaimsHarness,
  type TranscriptHarness,
} from '../../src/testing.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})

async function createGeneration(): Promise<{ id: string; sessionId: string }> {
  const { id: sessionId } = await createSession(database.db)
  const id = crypto.randomUUID()
  await database.sql`
    insert into ai_db.generations (id, session_id, agent_name) values (${id}, ${sessionId}, 'agent')`
  return { id, sessionId }
}

describe('postgresToolClaims conforms', () => {
  const harness: ToolClaimsHarness = {
    async createConsumer() {
      const claims = await postgresToolClaims({ store: createStore(database.db) })
      onTestFinished(() => claims.close())
      return claims.claim
    },
    async createCalls(count) {
      const { id, sessionId } = await createGeneration()
      const rows = await database.sql<{ id: string }[]>`
        insert into ai_db.tool_calls (id, generation_id, session_id, step, index, provider_call_id, name, args)
        select ${id} || '-' || i, ${id}, ${sessionId}, 0, i, 'c' || i, 'double', '{}'::jsonb
          from generate_series(1, ${count}::int) i returning id`
      return rows.map((row) => row.id)
    },
    async readCall(id) {
      const [row] = await database.sql<{ status: string; result: unknown; error: string | null }[]>`
        select status, result, error from ai_db.tool_calls where id = ${id}`
      return row!
    },
    async takeOver(id) {
      await database.sql`
        update ai_db.workers set lease_expires_at = 'epoch'
         where id = (select worker_id from ai_db.tool_calls where id = ${id})`
      await createStore(database.db).recoverWorkers()
    },
  }
  for (const { name, run } of toolClaimsConformance(harness)) test(name, run)
})

describe('durable streams conform', () => {
  const streamsUrl = inject('streamsUrl')
  const harness: TranscriptHarness = {
    createTranscript: async () => crypto.randomUUID(),
    async createWriter(generationId, attempt, restore) {
      const timing = { lingerMs: 1, minGapMs: 1 }
      const writer = createStreamWriter({ streamsUrl, generationId, attempt, restore, ...timing })
      onTestFinished(() => writer.abort())
      return writer
    },
    read: (generationId, signal) => readTranscript({ streamsUrl, generationId, signal }),
  }
  for (const { name, run } of transcriptConformance(harness)) test(name, run)
})

describe('packed chunks in Postgres conform', () => {
  const after = (id: string, index: number) => database.sql<PackedChunk[]>`
    select index, attempt, step, type, content from ai_db.chunks
     where generation_id = ${id} and index > ${index} order by index`
  const harness: TranscriptHarness = {
    createTranscript: async () => (await createGeneration()).id,
    async createWriter(id, attempt) {
      // What recovery does, then what a claim does.
      if (attempt > 1)
        await createStore(database.db).releaseGeneration({ generationId: id, attempt: attempt - 1 })
      await database.sql`
        update ai_db.generations set status = 'generating', attempt = ${attempt}, worker_id = 'w' where id = ${id}`
      const db = toDatabase(database.db)
      const writer = createPackedWriter({
        insert: (rows) => insertChunks(db, id, attempt, rows),
        startIndex: ((await after(id, -1)).at(-1)?.index ?? -1) + 1,
        flushMs: 1,
      })
      onTestFinished(() => writer.abort())
      return writer
    },
    read: (id, signal) =>
      readPackedTranscript({
        load: async (index) => ({ rows: await after(id, index) }),
        pollMs: 5,
        signal,
      }),
  }
  for (const { name, run } of transcriptConformance(harness)) test(name, run)
})
