/**
 * What an agent over rows is made of, its defaults, and what is refused. Everything in it is resolved by name
 * when a generation runs, so a deploy changes the next attempt and nothing is serialised.
 *
 * A tool with `needsApproval` runs when a person has approved the call (`approveToolCall`), here or in whichever process
 * has its function.
 */
import type { AnyTextAdapter, ChatMiddleware } from '@tanstack/ai'
import { AiDbError } from '../errors.js'
import { refuseUnknownOptions, requireNumber } from '../internal/options.js'
import type { RunnableTool } from '../tools/run-tool.js'

/** Another agent this one may ask. To the model it is a tool; underneath it is a message and its reply. */
export interface AgentReference {
  /** The other agent, or its name where another process runs it. */
  agent: { name: string } | string
  description: string
  /** How long to wait for the reply, in ms. @default 120_000 */
  timeout?: number
}

export interface AgentOptions {
  /** What messages are addressed to: 1 to 200 characters. */
  name: string
  description?: string
  /** The system prompt. */
  instructions: string
  /** A TanStack AI text adapter, the model baked in: `openaiText('gpt-4o')`. */
  adapter: AnyTextAdapter
  /** A tool with a function runs in the worker; one without waits for a process that has it (`createToolExecutor`). */
  tools?: readonly RunnableTool[]
  agents?: readonly AgentReference[]
  /** TanStack AI middleware, run around every step. */
  middleware?: readonly ChatMiddleware[]
  /** Passed to the provider as it is. */
  modelOptions?: Record<string, unknown>
  /** Model turns per generation; the last one's tool calls are not run. @default 16 */
  maxSteps?: number
  /** Claims without a persisted step in between, before it fails for good. @default 5 */
  maxAttempts?: number
  /** Wait before the attempt after a failed one, in ms. @default 500 · 4^(failures − 1), at most 60_000 */
  retryDelayMs?: (failures: number) => number
  /** The provider sent nothing for so long: the attempt fails. In ms. @default 120_000 */
  idleTimeoutMs?: number
  /** One execution of a tool, in ms. @default 300_000 */
  toolTimeoutMs?: number
  /** A tool call that nobody approved, or took up in another process, fails after so many ms. @default 86_400_000 (a day) */
  toolExpiresMs?: number
  /** A generation that only waits for other processes gives its slot back after so many ms. @default 1_000 */
  parkAfterMs?: number
  /** Messages given to the model, newest last. @default 200 */
  historyLimit?: number
  /**
   * When text was cut mid-sentence: `restart` asks the model for the step again and supersedes what was
   * shown; `continue` gives it the partial text as the beginning of its answer, which needs a model that
   * accepts prefill.
   * @default 'restart'
   */
  onInterrupted?: 'restart' | 'continue'
}

const DEFAULTS = {
  maxSteps: 16,
  maxAttempts: 5,
  retryDelayMs: (failures: number) => Math.min(500 * 4 ** (failures - 1), 60_000),
  idleTimeoutMs: 120_000,
  toolTimeoutMs: 300_000,
  toolExpiresMs: 86_400_000,
  parkAfterMs: 1_000,
  historyLimit: 200,
  onInterrupted: 'restart' as const,
  tools: [] as readonly RunnableTool[],
  agents: [] as readonly AgentReference[],
  middleware: [] as readonly ChatMiddleware[],
}

type Optional = 'description' | 'modelOptions'

/** An agent's options with every default filled in. */
export type ResolvedAgent = Required<Omit<AgentOptions, Optional>> & Pick<AgentOptions, Optional>

const NUMBERS = {
  maxSteps: 1,
  maxAttempts: 1,
  idleTimeoutMs: 1,
  toolTimeoutMs: 1,
  toolExpiresMs: 1,
  parkAfterMs: 0,
  historyLimit: 1,
} as const

const KNOWN = [
  'name',
  'description',
  'instructions',
  'adapter',
  'modelOptions',
  ...Object.keys(DEFAULTS),
]

export function resolveAgent(options: AgentOptions): ResolvedAgent {
  const what = `defineAgent('${String(options.name)}')`
  refuseUnknownOptions(what, options, KNOWN)
  const agent = { ...DEFAULTS, ...options }
  const refuse = (field: string, problem: string): never => {
    throw new AiDbError('INVALID_OPTION', `${what}: ${field} ${problem}`, { field })
  }
  if (typeof agent.name !== 'string' || agent.name.length < 1 || agent.name.length > 200) {
    refuse('name', 'must have 1 to 200 characters. Give the agent a short name.')
  }
  if (typeof agent.instructions !== 'string')
    refuse('instructions', 'must be a string. Pass the system prompt.')
  if (typeof agent.adapter?.chatStream !== 'function') {
    refuse('adapter', "must be a TanStack AI text adapter. Pass openaiText('gpt-4o'), say.")
  }
  for (const [field, min] of Object.entries(NUMBERS)) {
    requireNumber(what, field, agent[field as keyof typeof NUMBERS], min)
  }
  refuseBadTools(agent, refuse)
  return agent
}

function refuseBadTools(
  agent: { tools: readonly RunnableTool[]; agents: readonly AgentReference[] },
  refuse: (field: string, problem: string) => never,
): void {
  const seen = new Set<string>()
  for (const name of [
    ...agent.tools.map((tool) => tool.name),
    ...agent.agents.map(referenceName),
  ]) {
    if (seen.has(name)) refuse('tools', `has two tools or agents named '${name}'. Rename one.`)
    seen.add(name)
  }
}

export function referenceName(reference: AgentReference): string {
  return typeof reference.agent === 'string' ? reference.agent : reference.agent.name
}
