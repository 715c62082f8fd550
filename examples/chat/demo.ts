/** Everything the terminal needs running: the stack, the tables, the worker processes, a database pool. */
import { drizzle, type PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { startDevStack, type DevStack } from '../../src/dev.js'
import { createStore, migrate, type Store } from '../../src/server.js'
import { chooseModel, type ChosenModel } from './model.js'
import type { Screen } from './screen.js'
import { WorkerProcesses } from './worker-processes.js'

export interface Demo {
  db: PostgresJsDatabase
  store: Store
  streamsUrl: string
  workers: WorkerProcesses
  model: ChosenModel
  screen: Screen
  /** Stops all of it: workers first, what they need last. */
  stop(): Promise<void>
}

export interface DemoOptions {
  workers: number
  screen: Screen
  dataDir?: string
}

export async function startDemo(options: DemoOptions): Promise<Demo> {
  const { screen, dataDir } = options
  const model = await chooseModel()
  // Forked first: their code loads while Postgres starts.
  const workers = new WorkerProcesses(options.workers)
  let stack: DevStack | undefined
  let client: postgres.Sql | undefined
  const stop = async () => {
    await workers.stop()
    await client?.end({ timeout: 1 })
    await stack?.stop()
  }
  try {
    stack = await startDevStack(dataDir === undefined ? {} : { dataDir })
    const { databaseUrl, streamsUrl, readyMs } = stack
    client = postgres(databaseUrl, { max: 3, onnotice: () => {} })
    const db = drizzle({ client })
    await migrate(db)
    workers.start({ databaseUrl, streamsUrl })
    screen.note(`model: ${model.label}; stack ready in ${readyMs} ms`)
    screen.note('chat page: not part of this version yet')
    return { db, store: createStore(db), streamsUrl, workers, model, screen, stop }
  } catch (thrown) {
    await stop()
    throw thrown
  }
}
