/** Conversations in the states that verbs are about. Each has an owner's name in front of its session's id. */
import { answer, scenario } from '../postgres/rows.js'
import type { TestDatabase } from '../support/database.js'
import { fresh, sessionOf } from './handler-world.js'

export interface Turn {
  sessionId: string
  messageId: string
  generationId: string
  attempt: number
}

export interface Call extends Turn {
  toolCallId: string
  argsHash: string
}

export type Conversations = Awaited<ReturnType<typeof createConversations>>

type Database = Pick<TestDatabase, 'db' | 'sql'>

/** Makes a worker known for 'assistant' and for the conversations' own agent. */
export async function createConversations(database: Database, schema = 'ai_db') {
  const rows = scenario(database as TestDatabase, schema)
  const workerId = await rows.worker({ agents: [rows.agent, 'assistant'] })

  const session = (owner: string) => sessionOf(database.db, owner, schema)

  async function running(owner: string): Promise<Turn> {
    const sessionId = await session(owner)
    const messageId = await rows.say(sessionId, `${owner} asks something secret`)
    // Others may be queued by now: edits and retries ask for another turn.
    const claimed = await rows.claim(workerId)
    const { id, attempt } = claimed.find((one) => one.sessionId === sessionId)!
    return { sessionId, messageId, generationId: id, attempt }
  }

  async function settled(owner: string): Promise<Turn> {
    const turn = await running(owner)
    await rows.store.settleGeneration(answer({ id: turn.generationId, attempt: turn.attempt }))
    return turn
  }

  /** A pending call, which needs so many approvals. */
  async function called(owner: string, approvals = 0, tool = 'locate'): Promise<Call> {
    const turn = await running(owner)
    const toolCallId = fresh('call')
    const [row] = await database.sql`
      insert into ${database.sql(schema)}.tool_calls
        (id, generation_id, session_id, step, index, provider_call_id, name, args, approvals_required)
      values (${toolCallId}, ${turn.generationId}, ${turn.sessionId}, 0, 0, ${toolCallId}, ${tool},
        ${JSON.stringify({ of: owner })}::text::jsonb, ${approvals})
      returning args_hash`
    return { ...turn, toolCallId, argsHash: row!['args_hash'] as string }
  }

  return { agent: rows.agent, store: rows.store, session, running, settled, called }
}
