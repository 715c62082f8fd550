/**
 * Agents asking agents. To the model a collaborator is a tool; underneath, the step that records the call also
 * puts a message into the other agent's inbox, in one statement, with the call's id as `request_id`. The other
 * agent's cutover settles the call (trigger generations_finish), and that resumes the asker. No watcher, no
 * timer: the messages are the durability.
 *
 * Two agents that wait for each other in one session wait until `timeout` fails the call.
 */
import { referenceName, type AgentReference, type ResolvedAgent } from './agent-options.js'
import type { ToolDescription } from './model-turn.js'

/** The message that goes to a collaborator. */
export interface Ask {
  agent: string
  content: string
}

const inputSchema = {
  type: 'object',
  properties: { message: { type: 'string', description: 'What to ask or tell the agent' } },
  required: ['message'],
}

export function collaboratorTools(agent: ResolvedAgent): ToolDescription[] {
  return agent.agents.map((reference) => ({
    name: referenceName(reference),
    description: reference.description,
    inputSchema,
  }))
}

export function askOf(reference: AgentReference, args: unknown): Ask {
  const message = (args as { message?: unknown } | null)?.message
  const content =
    typeof message === 'string' && message.trim() !== '' ? message : JSON.stringify(args)
  return { agent: referenceName(reference), content }
}
