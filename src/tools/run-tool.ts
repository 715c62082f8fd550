/**
 * Runs one tool call: arguments checked by the tool's schema, its function raced with abort and timeout,
 * its result checked and made storable. It never throws for the tool's sake: a tool's exception is its
 * result. It throws only when the run itself was aborted.
 */
import { AiDbError, toError } from '../errors.js'
import { raceAbort } from '../internal/abort.js'
import { checkedBySchema } from './tool-schema.js'

export interface ToolContext {
  /** The tool's idempotency key: the same for every attempt of this call. */
  toolCallId: string
  /** Greater than 1: an earlier execution began and did not report; check by `toolCallId` before acting again. */
  attempt: number
  sessionId: string
  generationId: string
  abortSignal: AbortSignal
  /** Kept for tools written for `chat()`; reaches nobody here. */
  context: undefined
  emitCustomEvent: (name: string, value: Record<string, unknown>) => void
}

/** What is needed of a TanStack AI tool: `toolDefinition({...}).server(...)` satisfies it. */
export interface RunnableTool {
  name: string
  description?: string
  inputSchema?: unknown
  outputSchema?: unknown
  needsApproval?: boolean
  // The host's tools are typed by their own schemas; the arguments have been checked against those.
  execute?: ((args: never, context: never) => unknown) | undefined
}

export interface ToolRun {
  args: unknown
  context: Omit<ToolContext, 'abortSignal' | 'context' | 'emitCustomEvent'>
  signal: AbortSignal
  timeoutMs: number
}

export type ToolRunOutcome =
  { status: 'completed'; result: unknown } | { status: 'failed'; error: string }

/** @throws the signal's reason when `run.signal` aborts; everything else is an outcome. */
export async function runTool(tool: RunnableTool, run: ToolRun): Promise<ToolRunOutcome> {
  const timeout = new AbortController()
  const timer = setTimeout(
    () => timeout.abort(tookTooLong(tool.name, run.timeoutMs)),
    run.timeoutMs,
  )
  const signal = AbortSignal.any([run.signal, timeout.signal])
  try {
    const args = await checkedBySchema(tool.inputSchema, run.args, `arguments of ${tool.name}`)
    const context: ToolContext = {
      ...run.context,
      abortSignal: signal,
      context: undefined,
      emitCustomEvent: () => undefined,
    }
    const execute = tool.execute as ((args: unknown, context: ToolContext) => unknown) | undefined
    if (!execute)
      throw new AiDbError(
        'TOOL_FAILED',
        `${tool.name} has no function here. Give it one with .server(fn).`,
      )
    const value = await raceAbort(
      Promise.resolve().then(() => execute(args, context)),
      signal,
    )
    const result = await checkedBySchema(tool.outputSchema, value, `result of ${tool.name}`)
    return { status: 'completed', result: storable(tool.name, result) }
  } catch (thrown) {
    run.signal.throwIfAborted()
    return {
      status: 'failed',
      error: toError(thrown).message || `${tool.name} failed without a message`,
    }
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Are the arguments acceptable to the tool?
 *
 * @returns the reason if not.
 */
export async function refuseArguments(
  tool: RunnableTool,
  args: unknown,
): Promise<string | undefined> {
  try {
    await checkedBySchema(tool.inputSchema, args, `arguments of ${tool.name}`)
    return undefined
  } catch (thrown) {
    return toError(thrown).message
  }
}

/** What comes back from the row is what JSON keeps; the model is told the same in this process and in the next. */
function storable(name: string, result: unknown): unknown {
  try {
    const text = JSON.stringify(result) as string | undefined
    return text === undefined ? null : (JSON.parse(text) as unknown)
  } catch (error) {
    throw new AiDbError(
      'TOOL_FAILED',
      `The result of ${name} is not JSON: ${toError(error).message}`,
    )
  }
}

function tookTooLong(name: string, timeoutMs: number): AiDbError {
  return new AiDbError('TIMEOUT', `${name} took longer than ${timeoutMs} ms`)
}
