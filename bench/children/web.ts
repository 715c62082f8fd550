/** An app's server: the handler and nothing else, everybody allowed. */
import { getRequestListener } from '@hono/node-server'
import { createServer } from 'node:http'
import { createHandler } from '../../src/server.js'
import { connect } from '../world.js'
import { childConfig, takeOrders, tell } from './parent.js'

const { databaseUrl, electricUrl, streamsUrl } = childConfig<'web'>()
const db = connect(databaseUrl)
const handler = createHandler({
  db,
  electric: { url: electricUrl },
  streams: { url: streamsUrl },
  authorize: () => ({ actor: 'someone' }),
})
const listener = getRequestListener(handler)
const server = createServer((request, response) => void listener(request, response)).listen(
  0,
  '127.0.0.1',
)

takeOrders(
  async () => {
    server.closeAllConnections()
    server.close()
    await db.$client.end({ timeout: 1 })
  },
  (order) => {
    const address = server.address()
    if (order.type !== 'tell' || address === null || typeof address === 'string') return
    tell({ type: 'listening', url: `http://127.0.0.1:${address.port}` })
  },
)
server.once('listening', () => tell({ type: 'ready' }))
