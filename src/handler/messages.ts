/** What people say: a message, and one in another's place. */
import { editBody, paths, sendBody } from '../contract/requests.js'
import { editMessage } from '../sessions/edit-message.js'
import { sendMessage } from '../sessions/send-message.js'
import { defineRoute } from './route.js'

const sendRoute = defineRoute({
  method: 'POST',
  path: paths.messages,
  parts: ['sessionId'],
  body: sendBody,
  action: ({ host, path, body: { id, agent = host.defaultAgent } }) => ({
    verb: 'send',
    ...path,
    id,
    agent,
  }),
  async run({ host: { db, schema, defaultAgent }, path, body, grant }) {
    const { agent: targetAgent = defaultAgent, ...said } = body
    const message = { ...said, ...path, targetAgent, actorId: grant.actor }
    const { txid, id } = await sendMessage(db, { ...message, onDuplicate: 'touch' }, { schema })
    return { txid, id }
  },
})

const editRoute = defineRoute({
  method: 'PATCH',
  path: paths.message,
  parts: ['sessionId', 'messageId'],
  body: editBody,
  action: ({ path, body }) => ({ verb: 'edit', ...path, id: body.id }),
  async run({ host: { db, schema }, path, body, grant }) {
    const edit = { ...path, ...body, actorId: grant.actor }
    const { txid, id } = await editMessage(db, edit, { schema })
    return { txid, id }
  },
})

export const messageRoutes = [sendRoute, editRoute]
