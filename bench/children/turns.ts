/** Both sides of the bench `turns`, by order: a worker over what waits, or raw loops over the job table. */
import { createWorker, defineAgent } from '../../src/server.js'
import { deferred } from '../../src/internal/abort.js'
import { scriptedAdapter } from '../../src/testing.js'
import { now } from '../clock.js'
import { claimJob, completeJob } from '../floor-jobs.js'
import { connect } from '../world.js'
import { childConfig, takeOrders, tell } from './parent.js'

const { databaseUrl, streamsUrl, slots } = childConfig<'turns'>()
const db = connect(databaseUrl, slots)

async function ours(count: number): Promise<void> {
  const adapter = scriptedAdapter({ respond: () => ({ text: 'Done.' }) })
  const completed = deferred()
  let left = count
  let start = 0
  let cpu = process.cpuUsage()
  const worker = await createWorker({
    db,
    agents: [defineAgent({ name: 'noop', instructions: 'Answer with one word.', adapter })],
    streams: { url: streamsUrl },
    slots,
    onEvent: (event) => {
      // The first claim is on its way.
      if (event.type === 'started') {
        start = now()
        cpu = process.cpuUsage()
      }
      if (event.type === 'completed' && (left -= 1) === 0) completed.resolve()
      if (event.type === 'error' || event.type === 'retrying') console.error(event.error)
    },
  })
  await completed.promise
  const end = now()
  const cpuMs = cpuMsSince(cpu)
  await worker.stop()
  tell({ type: 'slice', ms: end - start, drainedMs: now() - end, cpuMs })
}

async function floor(count: number): Promise<void> {
  const cpu = process.cpuUsage()
  const start = now()
  let left = count
  await Promise.all(
    Array.from({ length: slots }, async (_, loop) => {
      while (left > 0) {
        left -= 1
        const job = await claimJob(db.$client, `loop ${loop}`)
        if (job) await completeJob(db.$client, job, 'Done.')
      }
    }),
  )
  tell({ type: 'slice', ms: now() - start, drainedMs: 0, cpuMs: cpuMsSince(cpu) })
}

function cpuMsSince(since: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(since)
  return (user + system) / 1000
}

takeOrders(
  () => db.$client.end({ timeout: 1 }),
  (order) => {
    if (order.type === 'ours') void ours(order.count)
    if (order.type === 'floor') void floor(order.count)
  },
)
tell({ type: 'ready' })
