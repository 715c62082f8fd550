/** What people say: a message, and one in another's place. */
import { paths, sendBody } from '../contract/requests.js'
import { sendMessage } from '../sessions/send-message.js'
import { defineRoute } from './route.js'

const sendRoute = defineRoute({
  method: 'POST',
  path: paths.messages,
  parts: ['sessionId'],
  body: sendBody,
  action: ({ host, path, body }) => ({
    verb: 'send',
    ...path,
    id: body.id,
    agent: body.agent ?? host.defaultAgent,
  }),
  run({ host, path, body, grant }) {
    const { agent: targetAgent = host.defaultAgent, ...message } = body
    const { schema } = host
    return sendMessage(
      host.db,
      { ...message, ...path, targetAgent, actorId: grant.actor },
      { schema },
    )
  },
})

export const messageRoutes = [sendRoute]
