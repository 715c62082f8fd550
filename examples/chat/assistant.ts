/** The agent of the chat example, as each worker process defines it for itself. */
import { defineAgent } from '../../src/server.js'
import type { Agent, RunnableTool, ToolContext } from '../../src/server.js'
import type { ChosenModel } from './model.js'
import { demoTools } from './tools.js'

export interface AssistantOptions {
  model: ChosenModel
  /** Called each time a tool's function is about to run: what `toolExecutions` counts. */
  onToolExecution: (generationId: string, name: string) => void
}

const INSTRUCTIONS =
  'You are a helpful assistant. Use calculate for every sum, current_time for every question about ' +
  'the time, lookup for people, places and things, and delete_file when asked to delete a file. Answer in a few plain sentences.'

export function assistant({ model, onToolExecution }: AssistantOptions): Agent {
  return defineAgent({
    name: 'assistant',
    instructions: INSTRUCTIONS,
    adapter: model.adapter,
    onInterrupted: model.onInterrupted,
    tools: demoTools().map((tool) => counted(tool, onToolExecution)),
  })
}

function counted(
  tool: RunnableTool,
  onToolExecution: AssistantOptions['onToolExecution'],
): RunnableTool {
  const execute = tool.execute as ((args: unknown, context: ToolContext) => unknown) | undefined
  return {
    ...tool,
    execute: (args: unknown, context: ToolContext) => {
      onToolExecution(context.generationId, tool.name)
      return execute?.(args, context)
    },
  }
}
