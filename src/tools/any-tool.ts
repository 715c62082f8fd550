/** Tools as the primitives' types see them: what a definition says about its calls. */
import type { InferToolInput, InferToolOutput } from '@tanstack/ai'

/** What is needed of a tool: `toolDefinition({...})`, with or without its function, satisfies it. */
export interface AnyTool {
  name: string
  description: string
  inputSchema?: unknown
  outputSchema?: unknown
  needsApproval?: boolean | undefined
}

/** One call of tool `T`. */
export interface ToolCallOf<T extends AnyTool> {
  /** The provider's tool call id. */
  id: string
  name: T['name']
  args: InferToolInput<T>
}

/** One call of one of several tools: told apart by `name`. */
export type ToolCallOfAny<TTools extends readonly AnyTool[]> = {
  [Index in keyof TTools]: ToolCallOf<TTools[Index]>
}[number]

/** The results of several tools. */
export type ToolResultOfAny<TTools extends readonly AnyTool[]> = {
  [Index in keyof TTools]: InferToolOutput<TTools[Index]>
}[number]
