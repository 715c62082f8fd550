/** Everything the demo needs running: the stack, the tables, the worker processes, the page, a database pool. */
import { drizzle, type PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { startDevStack, type DevStack } from '../../src/dev.js'
import { createStore, migrate, type Store } from '../../src/server.js'
import { buildPage } from './build-page.js'
import { chooseModel, type ChosenModel } from './model.js'
import type { Screen } from './screen.js'
import { startWebServer, type WebServer } from './web-server.js'
import { WorkerProcesses } from './worker-processes.js'

export interface Demo {
  db: PostgresJsDatabase
  store: Store
  streamsUrl: string
  workers: WorkerProcesses
  model: ChosenModel
  screen: Screen
  /** Of the chat page; absent when none was wished for. */
  pageUrl?: string
  /** Stops all of it: workers first, what they need last. */
  stop(): Promise<void>
}

export interface DemoOptions {
  workers: number
  screen: Screen
  /** Serve the chat page, at a port of its own choice or this one. */
  page?: { port?: number | undefined }
  dataDir?: string
}

export async function startDemo(options: DemoOptions): Promise<Demo> {
  const { screen, dataDir, page } = options
  const model = await chooseModel()
  // Begun first: their code loads, and the page is built, while Postgres starts.
  const workers = new WorkerProcesses(options.workers)
  const built = page && buildPage()
  built?.catch(() => {}) // heard of below
  let stack: DevStack | undefined
  let client: postgres.Sql | undefined
  let web: WebServer | undefined
  const stop = async () => {
    await web?.stop()
    await workers.stop()
    await client?.end({ timeout: 1 })
    await stack?.stop()
  }
  try {
    stack = await startDevStack(dataDir === undefined ? {} : { dataDir })
    const { databaseUrl, streamsUrl, electricUrl, readyMs } = stack
    client = postgres(databaseUrl, { max: 10, onnotice: () => {} })
    const db = drizzle({ client })
    await migrate(db)
    workers.start({ databaseUrl, streamsUrl })
    screen.note(`model: ${model.label}; stack ready in ${readyMs} ms`)
    const demo = { db, store: createStore(db), streamsUrl, workers, model, screen, stop }
    if (!page || !built) return demo
    const { directory: pageDirectory } = await built
    const electric = { url: electricUrl }
    const onError = (error: unknown) => screen.note(`page: ${String(error)}`)
    web = await startWebServer({
      db,
      electric,
      streamsUrl,
      workers,
      pageDirectory,
      onError,
      ...page,
    })
    screen.note(`chat page: ${web.url}`)
    return { ...demo, pageUrl: web.url }
  } catch (thrown) {
    await stop()
    throw thrown
  }
}
