/** The floor of sync: another process is notified of a commit. */
import postgres from 'postgres'
import { now } from '../clock.js'
import { childConfig, takeOrders, tell } from './parent.js'

const sql = postgres(childConfig<'listener'>().databaseUrl, { max: 1, onnotice: () => undefined })
await sql.listen('floor', (key) => tell({ type: 'seen', key, at: now() }))

takeOrders(() => sql.end({ timeout: 1 }))
tell({ type: 'ready' })
