/** Readers of many generations in one process, over SSE, as a server that renders for its users would be. */
import { followGeneration } from '../../src/server.js'
import { now } from '../clock.js'
import { connect } from '../world.js'
import { childConfig, takeOrders, tell } from './parent.js'

const { databaseUrl, streamsUrl } = childConfig<'reader'>()
const db = connect(databaseUrl)

async function readAll(generationIds: readonly string[]): Promise<void> {
  const latencies: number[] = []
  const tokens: number[] = []
  let rewrites = 0
  await Promise.all(
    generationIds.map(async (generationId) => {
      let unfinished = ''
      let count = 0
      for await (const update of followGeneration({
        db,
        generationId,
        streams: { url: streamsUrl },
      })) {
        const at = now()
        if (update.rewritten) rewrites += 1
        const words = (unfinished + update.appended).split(' ')
        unfinished = words.pop() ?? ''
        for (const word of words) latencies.push(at - Number(word))
        count += words.length
      }
      tokens.push(count)
    }),
  )
  tell({ type: 'read', latencies, tokens, rewrites })
}

takeOrders(
  () => db.$client.end({ timeout: 1 }),
  (order) => {
    if (order.type === 'read') void readAll(order.generationIds)
  },
)
tell({ type: 'ready' })
