/** An agent as a worker takes it: its options checked once, its run bound to them. */
import type { Agent } from '../runner/agent-run.js'
import { resolveAgent, type AgentOptions } from './agent-options.js'
import { runGeneration } from './run-generation.js'

/**
 * Defines an agent for `createWorker`.
 *
 * @throws AiDbError INVALID_OPTION, naming the field.
 */
export function defineAgent(options: AgentOptions): Agent {
  const agent = resolveAgent(options)
  return {
    name: agent.name,
    maxAttempts: agent.maxAttempts,
    run: (generation, run) => runGeneration(agent, generation, run),
  }
}
