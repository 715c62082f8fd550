/** The floor's other process: listens on a connection of its own, claims what is rung, settles it. */
import { now } from '../clock.js'
import { claimJob, completeJob, JOB_CHANNEL, settleJob, type FloorJob } from '../floor-jobs.js'
import { connect } from '../world.js'
import { childConfig, takeOrders, tell } from './parent.js'

const { databaseUrl, settles } = childConfig<'floor-worker'>()
const sql = connect(databaseUrl).$client

async function handle(): Promise<void> {
  const job = await claimJob(sql, 'floor')
  if (!job) return
  if (settles) return await settleJob(sql, job, sumOf(job))
  tell({ type: 'begun', key: job.id, at: now() })
  await completeJob(sql, job, 'ok')
  tell({ type: 'finished' })
}

function sumOf({ content }: FloorJob): string {
  const { a, b } = JSON.parse(content) as { a: number; b: number }
  return String(a + b)
}

await sql.listen(JOB_CHANNEL, () => void handle())
takeOrders(() => sql.end({ timeout: 1 }))
tell({ type: 'ready' })
