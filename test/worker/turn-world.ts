/** One database per file, workers that end with their test, and questions about rows. */
import { inject, onTestFinished } from 'vitest'
import { generationForMessage, readGeneration } from '../../src/claims/read-generation.js'
import { isSettledGeneration } from '../../src/contract/status.js'
import { toDatabase } from '../../src/internal/database.js'
import { createToolExecutor, type ToolExecutorOptions } from '../../src/runner/tool-executor.js'
import type { WorkerEvent } from '../../src/runner/events.js'
import { followGeneration, type GenerationUpdate } from '../../src/runner/follow-generation.js'
import type { DrizzleDatabase } from '../../src/internal/database.js'
import { createWorker, type Worker, type WorkerOptions } from '../../src/runner/worker.js'
import { createSession, type NewSession } from '../../src/sessions/create-session.js'
import { sendMessage, type NewMessage } from '../../src/sessions/send-message.js'
import { defineAgent } from '../../src/agent/define-agent.js'
import type { AgentOptions } from '../../src/agent/agent-options.js'
import type postgres from 'postgres'
import { scriptedAdapter, type ScriptedTurn } from '../../src/testing.js'
import { EventLog, pollUntil } from '../support/poll-until.js'

export type Row = Record<string, unknown>

export interface ObservedWorker {
  worker: Worker
  events: EventLog<WorkerEvent>
}

/** An agent of the name 'assistant' that plays `turns`, or answers by a function. */
export function scripted(
  script: readonly ScriptedTurn[] | NonNullable<Parameters<typeof scriptedAdapter>[0]['respond']>,
  options: Partial<AgentOptions> & { tokensPerSecond?: number } = {},
) {
  const { tokensPerSecond, ...rest } = options
  const pace = tokensPerSecond === undefined ? {} : { tokensPerSecond }
  const adapter =
    typeof script === 'function'
      ? scriptedAdapter({ respond: script, ...pace })
      : scriptedAdapter({ turns: script, ...pace })
  const agent = defineAgent({ name: 'assistant', instructions: 'Be brief.', adapter, ...rest })
  return { adapter, agent }
}

/** Workers started here stop with the test. Errors a worker tells fail the test unless it allows them. */
export async function startWorker(
  options: WorkerOptions,
  { allowErrors = false } = {},
): Promise<ObservedWorker> {
  const events = new EventLog<WorkerEvent>()
  const worker = await createWorker({
    streams: { url: inject('streamsUrl') },
    shutdownGraceMs: 0,
    ...options,
    onEvent: (event) => events.push(event),
  })
  return observed(worker, events, allowErrors)
}

export async function startExecutor(
  options: ToolExecutorOptions,
  { allowErrors = false } = {},
): Promise<ObservedWorker> {
  const events = new EventLog<WorkerEvent>()
  const worker = await createToolExecutor({
    shutdownGraceMs: 0,
    ...options,
    onEvent: (event) => events.push(event),
  })
  return observed(worker, events, allowErrors)
}

function observed(
  worker: Worker,
  events: EventLog<WorkerEvent>,
  allowErrors: boolean,
): ObservedWorker {
  onTestFinished(async () => {
    await worker.stop()
    const errors = events.of('error').map(({ error }) => error)
    if (!allowErrors && errors.length > 0)
      throw new AggregateError(errors, `a worker told an error: ${errors[0]!.stack}`)
  })
  return { worker, events }
}

export interface Sent {
  sessionId: string
  messageId: string
  generationId: string
}

/** A message, in a new session unless one is named, and the generation that will answer it. */
export async function say(
  db: DrizzleDatabase,
  content: string,
  to: Partial<NewMessage> & { session?: NewSession; schema?: string } = {},
): Promise<Sent> {
  const { session, schema, ...message } = to
  const options = schema === undefined ? {} : { schema }
  const sessionId = message.sessionId ?? (await createSession(db, session, options)).id
  const { id } = await sendMessage(db, { ...message, sessionId, content }, options)
  const database = toDatabase(db, options)
  const generationId = await pollUntil('the generation of a message', () =>
    generationForMessage(database, id),
  )
  return { sessionId, messageId: id, generationId }
}

/** Waits until a generation has ended. */
export async function untilSettled(db: DrizzleDatabase, generationId: string, schema?: string) {
  const database = toDatabase(db, schema === undefined ? {} : { schema })
  return pollUntil(`the end of generation ${generationId}`, async () => {
    const row = await readGeneration(database, generationId)
    return row && isSettledGeneration(row.status) && row
  })
}

export async function generationRow(sql: postgres.Sql, id: string): Promise<Row> {
  const [row] = await sql`select * from ai_db.generations where id = ${id}`
  return row!
}

export async function toolCallRows(sql: postgres.Sql, generationId: string): Promise<Row[]> {
  return sql`
    select * from ai_db.tool_calls where generation_id = ${generationId} order by step, index`
}

export async function messageRows(sql: postgres.Sql, sessionId: string): Promise<Row[]> {
  return sql`select * from ai_db.messages where session_id = ${sessionId} order by seq`
}

export interface Reader {
  readonly updates: { update: GenerationUpdate; at: number }[]
  /** The text as the viewer has put it together from what was appended and rewritten. */
  readonly text: string
  sees(what: string, fits: (text: string) => boolean): Promise<void>
  /** The last update. */
  readonly ended: Promise<GenerationUpdate>
}

/**
 * A reader in the background, which checks that its updates add up to the text.
 *
 * @param options.streamsUrl null reads chunk rows.
 */
export function startReader(
  db: DrizzleDatabase,
  generationId: string,
  {
    streamsUrl = inject('streamsUrl'),
    schema,
  }: { streamsUrl?: string | null; schema?: string } = {},
): Reader {
  const stop = new AbortController()
  const updates: Reader['updates'] = []
  let seen = ''
  async function read(): Promise<GenerationUpdate> {
    const options = {
      db,
      generationId,
      streams: { url: streamsUrl ?? undefined },
      signal: stop.signal,
    }
    for await (const update of followGeneration(schema ? { ...options, schema } : options)) {
      seen = update.rewritten ? update.text : seen + update.appended
      if (seen !== update.text) throw new Error(`the viewer has '${seen}', not '${update.text}'`)
      updates.push({ update, at: performance.now() })
    }
    const last = updates.at(-1)
    if (!last) throw new Error('the reader ended without an update')
    return last.update
  }
  const ended = read()
  ended.catch(() => undefined)
  onTestFinished(async () => {
    stop.abort()
    await ended.catch(() => undefined)
  })
  return {
    updates,
    ended,
    get text() {
      return seen
    },
    sees: async (what, fits) => void (await pollUntil(what, () => fits(seen))),
  }
}
