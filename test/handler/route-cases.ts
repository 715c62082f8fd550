/**
 * Every route, as a request that works, with what it changes and what does not fit it. Tests go over this table;
 * one of them fails when a route is missing here.
 */
import type { Verb } from '../../src/contract/requests.js'
import { paths } from '../../src/contract/requests.js'
import type { TestDatabase } from '../support/database.js'
import type { Conversations } from './conversations.js'
import { call, fresh } from './handler-world.js'

export interface Prepared {
  path: string
  body?: Record<string, unknown>
  /** The rows it writes, without what a mere touch changes. */
  effect?: () => Promise<unknown>
}

export interface RouteCase {
  /** `POST /sessions/:sessionId/messages` */
  route: string
  verb: Verb
  /** Rows of `owner`'s, and a request about them. `url` is where the handler is, for what has to be done before. */
  prepare(
    rows: Conversations,
    owner: string,
    world: { url: string; sql: TestDatabase['sql']; schema: string },
  ): Promise<Prepared>
  /** A body's field, and what does not fit it. */
  wrong?: { field: string; body: Record<string, unknown> }
  /** Does a repeat answer the same, but for its txid? */
  repeats?: false
}

export const methodOf = ({ route }: RouteCase) => route.split(' ')[0]!

type Rows = { sql: TestDatabase['sql']; schema: string }

const rowsOf =
  ({ sql, schema }: Rows, table: string, where: string, id: string) =>
  async () => {
    const text = `select * from ${schema}.${table} where ${where} = $1 order by 1`
    const rows = await sql.unsafe(text, [id])
    return rows.map(({ updated_at: _, lease_expires_at: __, ...row }) => row)
  }

const reads: RouteCase[] = [
  {
    route: 'GET /shapes/sessions',
    verb: 'list-sessions',
    prepare: async () => ({ path: `${paths.sessionsShape()}?offset=-1` }),
  },
  {
    route: 'POST /shapes/sessions',
    verb: 'list-sessions',
    prepare: async () => ({
      path: `${paths.sessionsShape()}?offset=now&log=changes_only`,
      body: { where: 'true = true' },
    }),
    wrong: { field: 'limit', body: { limit: 'many' } },
  },
  {
    route: 'GET /sessions/:sessionId/shapes/:shape',
    verb: 'read',
    prepare: async (rows, owner) => {
      const { sessionId } = await rows.settled(owner)
      return { path: `${paths.shape(sessionId, 'messages')}?offset=-1` }
    },
  },
  {
    route: 'POST /sessions/:sessionId/shapes/:shape',
    verb: 'read',
    prepare: async (rows, owner) => {
      const { sessionId } = await rows.settled(owner)
      return {
        path: `${paths.shape(sessionId, 'messages')}?offset=now&log=changes_only`,
        body: { where: '"role" = $1', params: { '1': 'user' } },
      }
    },
    wrong: { field: 'where', body: { where: 7 } },
  },
  {
    route: 'POST /live',
    verb: 'read',
    prepare: async (rows, owner) => {
      const { sessionId } = await rows.settled(owner)
      return {
        path: paths.live(),
        body: { polls: [{ sessionId, shape: 'messages', query: 'offset=-1' }] },
      }
    },
    wrong: { field: 'polls', body: { polls: [] } },
  },
  {
    route: 'GET /sessions',
    verb: 'list-sessions',
    prepare: async (rows, owner) => {
      await rows.session(owner)
      return { path: paths.sessions() }
    },
  },
  {
    route: 'GET /sessions/:sessionId/generations/:generationId',
    verb: 'read',
    prepare: async (rows, owner) => {
      const { sessionId, generationId } = await rows.settled(owner)
      return { path: paths.generation(sessionId, generationId) }
    },
  },
  {
    route: 'GET /sessions/:sessionId/generations/:generationId/stream',
    verb: 'read',
    prepare: async (rows, owner) => {
      const { sessionId, generationId } = await rows.running(owner)
      return { path: `${paths.stream(sessionId, generationId)}?offset=-1` }
    },
  },
]

const sessions: RouteCase[] = [
  {
    route: 'POST /sessions',
    verb: 'create-session',
    prepare: async (_rows, owner, world) => {
      const id = fresh(owner)
      return {
        path: paths.sessions(),
        body: { id, title: 'A title' },
        effect: rowsOf(world, 'sessions', 'id', id),
      }
    },
    wrong: { field: 'title', body: { title: 7 } },
  },
  {
    route: 'PATCH /sessions/:sessionId',
    verb: 'rename-session',
    prepare: async (rows, owner, world) => {
      const sessionId = await rows.session(owner)
      return {
        path: paths.session(sessionId),
        body: { title: 'Another' },
        effect: rowsOf(world, 'sessions', 'id', sessionId),
      }
    },
    wrong: { field: 'title', body: { title: ' ' } },
  },
  {
    route: 'DELETE /sessions/:sessionId',
    verb: 'delete-session',
    // The first deletes, the second finds nothing: both are told.
    repeats: false,
    prepare: async (rows, owner, world) => {
      const { sessionId } = await rows.settled(owner)
      return {
        path: paths.session(sessionId),
        effect: rowsOf(world, 'messages', 'session_id', sessionId),
      }
    },
  },
]

const messages: RouteCase[] = [
  {
    route: 'POST /sessions/:sessionId/messages',
    verb: 'send',
    prepare: async (rows, owner, world) => {
      const sessionId = await rows.session(owner)
      return {
        path: paths.messages(sessionId),
        body: { id: fresh('message'), content: 'Hello', metadata: { a: [1] } },
        effect: rowsOf(world, 'messages', 'session_id', sessionId),
      }
    },
    wrong: { field: 'content', body: { id: 'x', content: 7 } },
  },
  {
    route: 'PATCH /sessions/:sessionId/messages/:messageId',
    verb: 'edit',
    prepare: async (rows, owner, world) => {
      const { sessionId, messageId } = await rows.settled(owner)
      return {
        path: paths.message(sessionId, messageId),
        body: { id: fresh('message'), content: 'Rather this' },
        effect: rowsOf(world, 'messages', 'session_id', sessionId),
      }
    },
    wrong: { field: 'id', body: { content: 'x' } },
  },
]

const generations: RouteCase[] = [
  {
    route: 'POST /sessions/:sessionId/generations/:generationId/cancel',
    verb: 'cancel',
    prepare: async (rows, owner, world) => {
      const { sessionId, generationId } = await rows.running(owner)
      return {
        path: paths.cancel(sessionId, generationId),
        body: {},
        effect: rowsOf(world, 'generations', 'session_id', sessionId),
      }
    },
  },
  {
    route: 'POST /sessions/:sessionId/generations/:generationId/retry',
    verb: 'retry',
    prepare: async (rows, owner, world) => {
      const { sessionId, generationId } = await rows.settled(owner)
      return {
        path: paths.retry(sessionId, generationId),
        body: { id: fresh('generation') },
        effect: rowsOf(world, 'generations', 'session_id', sessionId),
      }
    },
    wrong: { field: 'id', body: { id: '' } },
  },
]

const vote = (verb: 'approve' | 'deny'): RouteCase => ({
  route: `POST /sessions/:sessionId/tool-calls/:toolCallId/${verb}`,
  verb,
  prepare: async (rows, owner, world) => {
    const { sessionId, toolCallId, argsHash } = await rows.called(owner, 2)
    return {
      path: paths[verb](sessionId, toolCallId),
      body: { id: fresh('vote'), argsHash, reason: 'because' },
      effect: rowsOf(world, 'approvals', 'session_id', sessionId),
    }
  },
  wrong: { field: 'argsHash', body: { id: 'x', argsHash: 'short' } },
})

const tools: RouteCase[] = [
  {
    route: 'POST /sessions/:sessionId/tool-calls/claim',
    verb: 'execute-tools',
    // What was claimed is not offered again.
    repeats: false,
    prepare: async (rows, owner, world) => {
      const { sessionId } = await rows.called(owner)
      return {
        path: paths.claimTools(sessionId),
        body: { executorId: 'tab', tools: ['locate'] },
        effect: rowsOf(world, 'tool_calls', 'session_id', sessionId),
      }
    },
    wrong: { field: 'tools', body: { executorId: 'tab', tools: [] } },
  },
  {
    route: 'POST /sessions/:sessionId/tool-calls/renew',
    verb: 'execute-tools',
    prepare: async (rows, owner, world) => {
      const { url } = world
      const { sessionId } = await rows.called(owner)
      await claim(url, owner, sessionId)
      return {
        path: paths.renewTools(sessionId),
        body: { executorId: 'tab', leaseMs: 60_000 },
        effect: rowsOf(world, 'tool_calls', 'session_id', sessionId),
      }
    },
    wrong: { field: 'leaseMs', body: { executorId: 'tab', leaseMs: 1 } },
  },
  {
    route: 'POST /sessions/:sessionId/tool-calls/:toolCallId/settle',
    verb: 'execute-tools',
    prepare: async (rows, owner, world) => {
      const { url } = world
      const { sessionId, toolCallId } = await rows.called(owner)
      await claim(url, owner, sessionId)
      return {
        path: paths.settleTool(sessionId, toolCallId),
        body: {
          executorId: 'tab',
          attempt: 1,
          outcome: { status: 'completed', result: { at: 7 } },
        },
        effect: rowsOf(world, 'tool_calls', 'session_id', sessionId),
      }
    },
    wrong: { field: 'attempt', body: { executorId: 'tab', attempt: 0, outcome: {} } },
  },
]

async function claim(url: string, as: string, sessionId: string): Promise<void> {
  const body = { executorId: 'tab', tools: ['locate'] }
  const { status, text } = await call(url, 'POST', paths.claimTools(sessionId), { as, body })
  if (status !== 200) throw new Error(`claim answered ${status}: ${text}`)
}

export const routeCases: readonly RouteCase[] = [
  ...reads,
  ...sessions,
  ...messages,
  ...generations,
  vote('approve'),
  vote('deny'),
  ...tools,
]

/** The routes that write: those with a txid. */
export const writeCases = routeCases.filter((one) => !reads.includes(one))
