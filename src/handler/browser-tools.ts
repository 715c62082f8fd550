/**
 * Tools that run where the person is: a tab claims calls of its session, keeps its lease, and settles them.
 *
 * The hazard is the executor's id, which a client makes: with another's, one could keep alive or settle what that
 * one holds, and the id is in every synced row. So what the database knows it by is made of the session, the actor
 * and the id, and cannot be made by anybody else.
 */
import { claimToolsBody, paths, renewToolsBody, settleToolBody } from '../contract/requests.js'
import { claimToolCallsFor } from '../sessions/claim-tool-calls-for.js'
import { renewExecutor } from '../sessions/renew-executor.js'
import { settleToolCallFor } from '../sessions/settle-tool-call-for.js'
import { defineRoute } from './route.js'

const claimRoute = defineRoute({
  method: 'POST',
  path: paths.claimTools,
  parts: ['sessionId'],
  body: claimToolsBody,
  action: ({ path, body: { executorId, tools } }) => ({
    verb: 'execute-tools',
    ...path,
    executorId,
    tools,
  }),
  async run({ host: { db, schema }, path, body, grant }) {
    const executorId = await executorOf(path.sessionId, grant.actor, body.executorId)
    return claimToolCallsFor(db, { ...path, ...body, executorId }, { schema })
  },
})

const renewRoute = defineRoute({
  method: 'POST',
  path: paths.renewTools,
  parts: ['sessionId'],
  body: renewToolsBody,
  action: ({ path, body: { executorId } }) => ({ verb: 'execute-tools', ...path, executorId }),
  async run({ host: { db, schema }, path, body, grant }) {
    const executorId = await executorOf(path.sessionId, grant.actor, body.executorId)
    return renewExecutor(db, { ...body, executorId }, { schema })
  },
})

const settleRoute = defineRoute({
  method: 'POST',
  path: paths.settleTool,
  parts: ['sessionId', 'toolCallId'],
  body: settleToolBody,
  action: ({ path, body: { executorId } }) => ({ verb: 'execute-tools', ...path, executorId }),
  async run({ host: { db, schema }, path, body, grant }) {
    const executorId = await executorOf(path.sessionId, grant.actor, body.executorId)
    const { txid } = await settleToolCallFor(db, { ...path, ...body, executorId }, { schema })
    return { txid }
  },
})

export const browserToolRoutes = [claimRoute, renewRoute, settleRoute]

async function executorOf(...parts: [sessionId: string, actor: string, id: string]) {
  const bytes = new TextEncoder().encode(JSON.stringify(parts))
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
