/**
 * The agents and tools of a worker process, by name, as they cannot be sent to it. What they say depends on the
 * conversation alone, so a run that was killed and one that was not come to the same words. The ids of their
 * tool calls are random, as a provider's are.
 */
import type { ModelMessage } from '@tanstack/ai'
import type postgres from 'postgres'
import { z } from 'zod'
import type { AgentOptions } from '../../src/agent/agent-options.js'
import type { RunnableTool, ToolContext } from '../../src/tools/run-tool.js'
import {
  continueFrom,
  messageText,
  scriptedAdapter,
  type ScriptedRequest,
  type ScriptedTurn,
} from '../../src/testing.js'

export type ScriptName =
  'two-lookups' | 'story' | 'echo' | 'remote-lookup' | 'gated-lookup' | 'asks-helper'
export type ToolName = 'lookup' | 'remote_lookup' | 'gated_lookup'

export const STORY = Array.from({ length: 40 }, (_, n) => `word${n}`).join(' ') + '.'

const finalText = (values: string) =>
  `Both are in: ${values}. ` +
  'I read them from rows that were stored before I went on, so it does not matter who finishes this sentence, or when.'

/** The messages since the last person spoke, tool results among them. */
export function sinceQuestion(messages: readonly ModelMessage[]) {
  const last = messages.findLastIndex((message) => message.role === 'user')
  const question = messageText(messages[last]!)
  const results = messages
    .slice(last + 1)
    .filter((message) => message.role === 'tool')
    .map(messageText)
  return { question, results }
}

const scripts: Record<ScriptName, (request: ScriptedRequest) => ScriptedTurn> = {
  'two-lookups': ({ messages }) => lookups(messages, 'lookup'),
  'remote-lookup': ({ messages }) => lookups(messages, 'remote_lookup'),
  'gated-lookup': ({ messages }) => lookups(messages, 'gated_lookup'),
  story: ({ messages }) => ({ text: continueFrom(STORY, messages) }),
  echo: ({ messages }) => ({
    text: continueFrom(`echo: ${sinceQuestion(messages).question}`, messages),
  }),
  'asks-helper': ({ messages }) => {
    const { question, results } = sinceQuestion(messages)
    if (results.length > 0) return { text: `The helper says ${results[0]}` }
    return { toolCalls: [{ name: 'helper', args: { message: question } }] }
  },
}

function lookups(messages: readonly ModelMessage[], name: ToolName): ScriptedTurn {
  const { results } = sinceQuestion(messages)
  const key = ['alpha', 'beta'][results.length]
  if (key === undefined) return { text: continueFrom(finalText(results.join(' and ')), messages) }
  const text = `I will look up ${key} first and say what it is when I know.`
  return {
    text: continueFrom(text, messages),
    toolCalls: [{ name, args: { key, note: 'arguments long enough to be cut' } }],
    usage: { promptTokens: 10, completionTokens: 5, totalTokens: 15 },
  }
}

const input = z.object({ key: z.string(), note: z.string().optional() })

/** A tool whose side effect is a row, committed before it returns: a killed process' deeds are known. */
export function effectTool(name: ToolName, sql: postgres.Sql): RunnableTool {
  return {
    ...describedTool(name),
    execute: async ({ key }: z.infer<typeof input>, context: ToolContext) => {
      await sql`
        insert into effects (tool_call_id, attempt, pid)
        values (${context.toolCallId}, ${context.attempt}, ${process.pid})`
      return { key, value: key.length * 7 }
    },
  }
}

const describedTool = (name: ToolName): RunnableTool => ({
  name,
  description: 'Looks a key up',
  inputSchema: input,
})

/** Creates what `effectTool` writes to. */
export const EFFECTS_TABLE =
  'create table effects (tool_call_id text, attempt int, pid int, at timestamptz default now())'

export interface AgentConfig {
  name: string
  script: ScriptName
  /** @default 100 */
  tokensPerSecond?: number
  options?: Pick<AgentOptions, 'onInterrupted' | 'parkAfterMs' | 'maxAttempts' | 'toolExpiresMs'>
}

export function agentOptions(config: AgentConfig, sql: postgres.Sql): AgentOptions {
  const { name, script, tokensPerSecond = 100, options } = config
  return {
    name,
    instructions: 'Be brief.',
    adapter: scriptedAdapter({ respond: scripts[script], tokensPerSecond }),
    tools: [
      effectTool('lookup', sql),
      describedTool('remote_lookup'),
      { ...effectTool('gated_lookup', sql), needsApproval: true },
    ],
    ...(script === 'asks-helper' && { agents: [{ agent: 'helper', description: 'Knows things' }] }),
    ...options,
  }
}
