/** Many Electric clients, unmodified, each with a shape of its own. A message's content is when it was written. */
import { ShapeStream, type Message, type Row } from '@electric-sql/client'
import { setMaxListeners } from 'node:events'
import { now } from '../clock.js'
import { childConfig, takeOrders, tell } from './parent.js'

const { electricUrl, sessionIds } = childConfig<'crowd'>()
const stop = new AbortController()
setMaxListeners(0, stop.signal)
const counts = new Map<string, number>()
const sessions = new Set<string>()
const latencies: number[] = []

function take(message: Message<Row>): void {
  if (!('key' in message) || message.headers.operation !== 'insert') return
  const at = now()
  const { id, content, session_id: sessionId } = message.value as Record<string, string>
  counts.set(id!, (counts.get(id!) ?? 0) + 1)
  sessions.add(sessionId!)
  latencies.push(at - Number(content))
  if (sessionIds.length === 1) tell({ type: 'seen', key: id!, at })
}

await Promise.all(
  sessionIds.map(
    (sessionId) =>
      new Promise<void>((resolve) => {
        const stream = new ShapeStream({
          url: `${electricUrl}/v1/shape`,
          params: { table: 'ai_db.messages', where: '"session_id" = $1', params: [sessionId] },
          signal: stop.signal,
        })
        stream.subscribe((messages) => {
          for (const message of messages) take(message)
          if (messages.some((message) => message.headers.control === 'up-to-date')) resolve()
        })
      }),
  ),
)

takeOrders(
  async () => stop.abort(),
  (order) => {
    if (order.type !== 'tell') return
    const repeats = [...counts.values()].reduce((sum, count) => sum + count - 1, 0)
    tell({ type: 'crowd', latencies, rows: counts.size, repeats, sessions: sessions.size })
  },
)
tell({ type: 'ready' })
