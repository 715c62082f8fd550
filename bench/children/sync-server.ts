/** The dev sync server, in a process of its own as Electric is. */
import { startSyncServer } from '../../src/dev/sync-server/server.js'
import { childConfig, takeOrders, tell } from './parent.js'

const { databaseUrl } = childConfig<'sync-server'>()
const server = await startSyncServer({ databaseUrl, port: 0 })

takeOrders(
  () => server.stop(),
  (order) => {
    if (order.type === 'tell') tell({ type: 'listening', url: server.url })
  },
)
tell({ type: 'ready' })
