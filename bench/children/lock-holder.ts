/** The floor of `recovery`: has the lock and the job, or waits until whoever has them is dead. */
import { now } from '../clock.js'
import { connect } from '../world.js'
import { childConfig, takeOrders, tell } from './parent.js'

const { databaseUrl, jobId } = childConfig<'lock-holder'>()
const sql = connect(databaseUrl, 1).$client

takeOrders(() => Promise.resolve())
await sql`select 1`
tell({ type: 'ready' })
await sql`select pg_advisory_lock(1)`
await sql`
  update floor.jobs set status = 'executing', attempt = attempt + 1, worker_id = ${String(process.pid)}
   where id = ${jobId} and status in ('pending', 'executing')`
tell({ type: 'begun', key: jobId, at: now() })
