/** A browser tab, without the browser: it sends, and tells when it sees a message or a token. */
import { openSession } from '../../src/client.js'
import { now } from '../clock.js'
import { childConfig, takeOrders, tell } from './parent.js'

const session = openSession({ ...childConfig<'tab'>(), storage: null })
await session.ready

session.collections.messages.subscribeChanges((changes) => {
  for (const { type, value } of changes) {
    if (type === 'insert') tell({ type: 'seen', key: value.content, at: now() })
  }
})

const followed = new Set<string>()
session.collections.generations.subscribeChanges(
  (changes) => {
    for (const { value } of changes) if (value.agentName === 'clocked') follow(value.id)
  },
  { includeInitialState: true },
)

/** Every word of the text is the time at which the model gave it. */
function follow(generationId: string): void {
  if (followed.has(generationId)) return
  followed.add(generationId)
  const text = session.text(generationId)
  const latencies: number[] = []
  let shown = ''
  let rewrites = 0
  const off = text.subscribe(() => {
    const at = now()
    const state = text.get()
    const isNew = state.text.startsWith(shown)
    if (!isNew) rewrites += 1
    // The last word may be cut: it counts when the next one begins.
    const upTo = state.text.lastIndexOf(' ') + 1
    if (isNew) {
      for (const word of state.text.slice(shown.length, upTo).split(' ')) {
        if (word !== '') latencies.push(at - Number(word))
      }
      shown = state.text.slice(0, Math.max(upTo, shown.length))
    }
    if (state.status !== 'completed') return
    off()
    tell({ type: 'read', latencies, tokens: [latencies.length], rewrites })
  })
}

takeOrders(
  () => session.close(),
  (order) => {
    if (order.type !== 'send') return
    const { content, agent } = order
    tell({ type: 'sent', key: content, at: now() })
    session.send(content, { agent }).isPersisted.promise.catch((error: unknown) => {
      console.error(error)
    })
  },
)
tell({ type: 'ready' })
