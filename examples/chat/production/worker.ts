/**
 * The worker of the production stack: one process, as many as you like of them. SIGTERM (a deploy) puts down
 * what is running; another worker goes on with it. Each event is one line of JSON.
 */
import { drizzle } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { createWorker } from '../../../src/server.js'
import { assistant } from '../assistant.js'
import { chooseModel } from '../model.js'
import { readEnvironment } from './environment.js'

const { databaseUrl, streamsUrl } = readEnvironment()
// A worker's own pool: its reconnects are quick, and no first query of a connection can be lost.
const client = postgres(databaseUrl, { max: 10, fetch_types: false, backoff: () => 0.1 })
const model = await chooseModel()
const worker = await createWorker({
  db: drizzle({ client }),
  streams: { url: streamsUrl },
  agents: [assistant({ model, onToolExecution: () => {} })],
  onEvent: (event) => console.log(JSON.stringify({ at: new Date().toISOString(), ...event })),
})

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.once(signal, () => {
    void worker.stop().then(() => client.end({ timeout: 5 }))
  })
}
