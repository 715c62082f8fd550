/**
 * One worker process of the chat example, forked by terminal.ts. It claims generations of the assistant and
 * runs them; what it tells the terminal is for show. It ends when it is told to, and when the terminal is
 * gone, however that ended: the channel between them closes.
 *
 * Killing it with -9 is part of the demo: it needs no chance to tidy up.
 */
import { drizzle } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { createWorker } from '../../src/server.js'
import type { WorkerEvent } from '../../src/server.js'
import { assistant } from './assistant.js'
import { chooseModel } from './model.js'
import { countStatements, type CountedAgent } from './statement-count.js'
import type { WorkerOrder, WorkerReport } from './worker-report.js'

/** With the terminal the database may be gone as well, and then there is nobody to take leave of. */
const LEAVE_MS = 2_000

let leave: () => Promise<void> = async () => {}

process.on('message', (order: WorkerOrder) => void (order.type === 'stop' ? end() : start(order)))
process.once('disconnect', () => void end())
process.once('SIGTERM', () => void end())
process.on('SIGINT', () => {}) // Ctrl-C reaches the whole group, and the terminal decides
if (!process.connected) void end()

async function start({ databaseUrl, streamsUrl, schema }: Extract<WorkerOrder, { type: 'start' }>) {
  const client = postgres(databaseUrl, { max: 5, onnotice: () => {} })
  leave = () => client.end({ timeout: 1 })
  try {
    const agent = countStatements(assistant({ model: await chooseModel(), onToolExecution }))
    const worker = await createWorker({
      db: drizzle({ client }),
      ...(schema && { schema }),
      streams: { url: streamsUrl },
      agents: [agent],
      shutdownGraceMs: 0,
      onEvent: (event) => tell(event, agent),
    })
    leave = async () => {
      await worker.stop()
      await client.end({ timeout: 1 })
    }
    report({ type: 'ready' })
  } catch (thrown) {
    report({ type: 'unable', message: thrown instanceof Error ? thrown.message : String(thrown) })
    await end()
  }
}

async function end(): Promise<void> {
  setTimeout(() => process.exit(), LEAVE_MS).unref()
  await leave().catch(() => {})
  process.exit()
}

function onToolExecution(generationId: string, name: string): void {
  report({ type: 'tool-execution', generationId, name })
}

function tell(event: WorkerEvent, agent: CountedAgent): void {
  switch (event.type) {
    case 'claimed': {
      const { generationId, attempt } = event
      return report({ type: 'claimed', generationId, attempt })
    }
    case 'completed':
    case 'failed':
    case 'cancelled': {
      const { generationId } = event
      const roundTrips = agent.statementsOf(generationId)
      return report({ type: 'settled', generationId, roundTrips })
    }
    case 'retrying': {
      const message = `attempt ${event.attempt} failed: ${event.error.message} Trying again in ${event.delayMs} ms.`
      return report({ type: 'trouble', message })
    }
    case 'error':
      return report({ type: 'trouble', message: event.error.message })
    default:
  }
}

function report(told: WorkerReport): void {
  if (process.connected) process.send?.(told)
}
