/** A process that holds a runner, records one checkpoint, and then works until it is killed. */
import { drizzle } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import type { RunnerWake } from '../../src/contract/lifecycle.js'
import { postgresLifecycle } from '../../src/runner/postgres-lifecycle.js'
import { runWithLifecycle } from '../../src/runner/run-with-lifecycle.js'

const [url, wake] = process.argv.slice(2)
const client = postgres(url!, { max: 1, onnotice: () => undefined })
const adapter = postgresLifecycle({ db: drizzle({ client }), leaseMs: 1_000 })

await runWithLifecycle(JSON.parse(wake!) as RunnerWake, adapter, async (session) => {
  await session.checkpoint([{ source: 's', cursor: '1' }])
  process.send!('checkpointed 1')
  await new Promise(() => undefined)
})
