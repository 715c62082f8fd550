/** Conversations: made, renamed, removed, and listed for whoever owns them. */
import { createSessionBody, paths } from '../contract/requests.js'
import { createSession } from '../sessions/create-session.js'
import { defineRoute } from './route.js'

const createRoute = defineRoute({
  method: 'POST',
  path: paths.sessions,
  parts: [],
  body: createSessionBody,
  action: ({ body }) => ({ verb: 'create-session', ...(body.id !== undefined && { id: body.id }) }),
  run: ({ host, body }) => createSession(host.db, body, { schema: host.schema }),
})

export const sessionRoutes = [createRoute]
