/** Conversations: made, renamed, removed, and listed for whoever owns them. */
import { z } from 'zod'
import { createSessionBody, paths, renameSessionBody } from '../contract/requests.js'
import { createSession } from '../sessions/create-session.js'
import { deleteSession } from '../sessions/delete-session.js'
import { listSessions } from '../sessions/list-sessions.js'
import { renameSession } from '../sessions/rename-session.js'
import { Refusal } from './problem.js'
import { defineRoute } from './route.js'

const createRoute = defineRoute({
  method: 'POST',
  path: paths.sessions,
  parts: [],
  body: createSessionBody,
  action: ({ body }) => ({ verb: 'create-session', ...(body.id !== undefined && { id: body.id }) }),
  async run({ host: { db, schema }, body, grant }) {
    const session = { ...body, ownerId: grant.owner, onDuplicate: 'touch' as const }
    const { txid, id } = await createSession(db, session, { schema })
    return { txid, id }
  },
})

const listRoute = defineRoute({
  method: 'GET',
  path: paths.sessions,
  parts: [],
  action: () => ({ verb: 'list-sessions' }),
  async run({ host: { db, schema }, query, grant }) {
    const limit = limitOf(query.get('limit'))
    return { sessions: await listSessions(db, { ownerId: grant.owner, limit }, { schema }) }
  },
})

const renameRoute = defineRoute({
  method: 'PATCH',
  path: paths.session,
  parts: ['sessionId'],
  body: renameSessionBody,
  action: ({ path }) => ({ verb: 'rename-session', ...path }),
  run: ({ host: { db, schema }, path, body }) =>
    renameSession(db, { ...path, ...body }, { schema }),
})

const deleteRoute = defineRoute({
  method: 'DELETE',
  path: paths.session,
  parts: ['sessionId'],
  action: ({ path }) => ({ verb: 'delete-session', ...path }),
  run: ({ host: { db, schema }, path }) => deleteSession(db, path, { schema }),
})

export const sessionRoutes = [createRoute, listRoute, renameRoute, deleteRoute]

const limit = z.coerce.number().int().min(1).max(1000).default(100)

function limitOf(given: string | null): number {
  const parsed = limit.safeParse(given ?? undefined)
  if (parsed.success) return parsed.data
  const message = 'limit must be a whole number from 1 to 1000. Correct it.'
  throw new Refusal(400, 'INVALID_INPUT', message, { field: 'limit' })
}
