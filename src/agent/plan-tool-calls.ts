/**
 * Decides what becomes of each call a model asked for: run here, run by another process, put before people first,
 * asked of another agent, or failed at once because nothing could run it. A failed call is told to the model like any result.
 */
import type { NewToolCall, RecordedToolCall } from '../claims/record-step.js'
import { nearest } from '../internal/options.js'
import { refuseArguments } from '../tools/run-tool.js'
import { referenceName, type ResolvedAgent } from './agent-options.js'
import { askOf } from './collaborators.js'
import type { LoadedToolCall } from './load.js'
import type { AskedToolCall } from './model-turn.js'

export function planToolCalls(
  agent: ResolvedAgent,
  asked: readonly AskedToolCall[],
): Promise<NewToolCall[]> {
  return Promise.all(asked.map((call) => planOne(agent, call)))
}

async function planOne(agent: ResolvedAgent, asked: AskedToolCall): Promise<NewToolCall> {
  const { providerCallId, name } = asked
  const parsed = parseArguments(asked.argumentsText)
  const call = { providerCallId, name, args: parsed.args }
  const failed = (error: string): NewToolCall => ({ ...call, status: 'failed', error })
  if (parsed.error !== undefined) return failed(parsed.error)
  const reference = agent.agents.find((candidate) => referenceName(candidate) === name)
  if (reference) {
    return {
      ...call,
      status: 'pending',
      workerOnly: true,
      expiresInMs: reference.timeout ?? 120_000,
      ask: askOf(reference, parsed.args),
    }
  }
  const tool = agent.tools.find((candidate) => candidate.name === name)
  if (!tool) return failed(unknownTool(agent, name))
  const refused = await refuseArguments(tool, parsed.args)
  if (refused !== undefined) return failed(refused)
  const limits = { timeoutMs: agent.toolTimeoutMs, maxAttempts: agent.maxAttempts }
  const workerOnly = tool.execute !== undefined
  const gated = tool.needsApproval === true
  if (workerOnly && !gated) return { ...call, ...limits, status: 'executing', workerOnly }
  return {
    ...call,
    ...limits,
    status: 'pending',
    workerOnly,
    approvalsRequired: gated ? 1 : 0,
    expiresInMs: agent.toolExpiresMs,
  }
}

/** The planned calls as the rows they became. */
export function loadedCalls(
  generationId: string,
  step: number,
  planned: readonly NewToolCall[],
  recorded: readonly RecordedToolCall[],
): LoadedToolCall[] {
  return recorded.map(({ id, index }) => {
    const plan = planned[index]!
    return {
      id,
      generationId,
      step,
      index,
      providerCallId: plan.providerCallId,
      name: plan.name,
      args: plan.args,
      status: plan.status,
      result: null,
      error: plan.error ?? null,
      attempt: plan.status === 'executing' ? 1 : 0,
      timeoutMs: plan.timeoutMs ?? null,
      gated: (plan.approvalsRequired ?? 0) > 0,
    }
  })
}

function parseArguments(text: string): { args: unknown; error?: string } {
  try {
    const args: unknown = JSON.parse(text.trim() === '' ? '{}' : text)
    // Some providers send null for a tool without parameters.
    return { args: args ?? {} }
  } catch {
    return { args: text, error: `The arguments are not valid JSON: ${text.slice(0, 200)}` }
  }
}

function unknownTool(agent: ResolvedAgent, name: string): string {
  const known = [...agent.tools.map((tool) => tool.name), ...agent.agents.map(referenceName)]
  const near = nearest(name, known)
  return `There is no tool '${name}'${near ? `; did you mean '${near}'?` : '.'} Tools: ${known.join(', ') || 'none'}.`
}
