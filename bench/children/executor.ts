/** A process that runs one tool and no model. */
import { createToolExecutor } from '../../src/server.js'
import { connect } from '../world.js'
import { childConfig, takeOrders, tell } from './parent.js'

const { databaseUrl } = childConfig<'executor'>()

const executor = await createToolExecutor({
  db: connect(databaseUrl),
  tools: [{ name: 'add', execute: ({ a, b }: { a: number; b: number }) => a + b }],
  onEvent: (event) => {
    if (event.type === 'error') console.error(event.error)
  },
})

takeOrders(() => executor.stop())
tell({ type: 'ready' })
