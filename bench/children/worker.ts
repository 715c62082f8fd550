/** A worker process with agents of the bench. */
import { createWorker } from '../../src/server.js'
import { connect } from '../world.js'
import { benchAgent } from './agents.js'
import { childConfig, takeOrders, tell } from './parent.js'

const { databaseUrl, streamsUrl, agents, slots, tokensPerSecond } = childConfig<'worker'>()
const db = connect(databaseUrl, Math.min(Math.max(slots, 10), 20))

const worker = await createWorker({
  db,
  agents: agents.map((kind) => benchAgent(kind, { db, tokensPerSecond })),
  streams: { url: streamsUrl },
  slots,
  shutdownGraceMs: 0,
  onEvent: (event) => {
    if (event.type === 'claimed') {
      tell({ type: 'claimed', generationId: event.generationId, attempt: event.attempt })
    }
    if (event.type === 'completed') tell({ type: 'finished' })
    if (event.type === 'error' || event.type === 'retrying') console.error(event.error)
  },
})

takeOrders(() => worker.stop())
tell({ type: 'ready' })
