/** Consent: people's votes on tool calls, each bound to the arguments that were shown. */
import { approvalBody, paths } from '../contract/requests.js'
import { approveToolCall, denyToolCall } from '../sessions/vote-on-tool-call.js'
import { defineRoute } from './route.js'

const approveRoute = defineRoute({
  method: 'POST',
  path: paths.approve,
  parts: ['sessionId', 'toolCallId'],
  body: approvalBody,
  action: ({ path, body }) => ({ verb: 'approve', ...path, id: body.id }),
  run: ({ host: { db, schema }, path, body, grant }) =>
    approveToolCall(db, { ...path, ...body, actorId: grant.actor }, { schema }),
})

const denyRoute = defineRoute({
  method: 'POST',
  path: paths.deny,
  parts: ['sessionId', 'toolCallId'],
  body: approvalBody,
  action: ({ path, body }) => ({ verb: 'deny', ...path, id: body.id }),
  run: ({ host: { db, schema }, path, body, grant }) =>
    denyToolCall(db, { ...path, ...body, actorId: grant.actor }, { schema }),
})

export const approvalRoutes = [approveRoute, denyRoute]
