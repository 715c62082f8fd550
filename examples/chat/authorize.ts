/**
 * Who may do what in the demo. The handler asks this for every request, and nothing works without it.
 *
 * A real app answers three questions here, from its own session and its own tables: who is it (a login, not a
 * cookie that anybody gets), may they see this session (a membership, not the knowledge of its id), and may
 * they do this in it (a role; and who may approve which tool is worth a rule of its own).
 *
 * The demo's answers: whoever has a chat's link is in the chat and may read, write, stop, retry and vote, as the
 * id in it is random and 128 bits long. One edits only what one wrote oneself; a chat is renamed and deleted by
 * the browser that made it, in whose list it is. No browser executes tools.
 */
import { and, eq } from 'drizzle-orm'
import type { PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import { createTables } from '../../src/schema.js'
import type { Action, Denial, Grant } from '../../src/server.js'
import { actorOf } from './actor-cookie.js'

export function demoAuthorize(db: PostgresJsDatabase, schema: string) {
  const tables = createTables(schema)
  return async (request: Request, action: Action): Promise<Grant | Denial> => {
    const actor = actorOf(request)
    if (actor === undefined) {
      return { deny: 'unauthenticated', detail: 'This browser has no cookie. Load the page first.' }
    }
    switch (action.verb) {
      case 'list-sessions':
      case 'create-session':
      case 'read':
      case 'send':
      case 'cancel':
      case 'retry':
      case 'approve':
      case 'deny':
        return { actor }
      case 'rename-session':
      case 'delete-session':
        return (await ownsSession(db, tables, actor, action)) ? { actor } : ONLY_ITS_OWNER
      case 'edit':
        return (await wroteMessage(db, tables, actor, action)) ? { actor } : ONLY_ITS_AUTHOR
      case 'execute-tools':
        return { deny: 'forbidden', detail: 'In this demo only worker processes run tools.' }
    }
  }
}

type Tables = ReturnType<typeof createTables>

const ONLY_ITS_OWNER: Denial = {
  deny: 'forbidden',
  detail: 'Only the browser that began this chat can do that.',
}
const ONLY_ITS_AUTHOR: Denial = {
  deny: 'forbidden',
  detail: 'Only who wrote this message can edit it.',
}

/** One that is gone, or not there yet, is nobody's: the handler answers for it. */
async function ownsSession(
  db: PostgresJsDatabase,
  { sessions }: Tables,
  actor: string,
  { sessionId = '' }: Action,
) {
  const [row] = await db
    .select({ ownerId: sessions.ownerId })
    .from(sessions)
    .where(eq(sessions.id, sessionId))
  return row === undefined || row.ownerId === actor
}

async function wroteMessage(
  db: PostgresJsDatabase,
  { messages }: Tables,
  actor: string,
  { sessionId = '', messageId = '' }: Action,
) {
  const [row] = await db
    .select({ actorId: messages.actorId })
    .from(messages)
    .where(and(eq(messages.sessionId, sessionId), eq(messages.id, messageId)))
  return row === undefined || row.actorId === actor
}
