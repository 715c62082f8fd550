/**
 * Counts the SQL statements of each run of an agent: the claim, and what the run sends itself, by the
 * database it is given. What the worker process sends beside it (leases, looking for work) is not in it.
 */
import type { Agent } from '../../src/server.js'

export interface CountedAgent extends Agent {
  /** Statements of the newest run of a generation, from its claim. */
  statementsOf(generationId: string): number
}

type AgentRun = Parameters<Agent['run']>[1]

export function countStatements(agent: Agent): CountedAgent {
  const counts = new Map<string, number>()
  const statementsOf = (id: string) => counts.get(id) ?? 1
  return {
    ...agent,
    statementsOf,
    run: (generation, run) => {
      const { id } = generation
      counts.set(id, 1) // the claim
      const query: AgentRun['db']['query'] = (statement, params) => {
        counts.set(id, statementsOf(id) + 1)
        return run.db.query(statement, params)
      }
      const db: AgentRun['db'] = Object.create(run.db, { query: { value: query } })
      return agent.run(generation, { ...run, db })
    },
  }
}
