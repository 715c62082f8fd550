/**
 * The calls of one turn, side by side: a `chat()` middleware.
 *
 * `chat()` runs a turn's tools one after another, and tells their functions nothing of each other. Its hook
 * before the first of them sees the whole turn, so that is where the rows of all durable tools are made;
 * each function then joins its own. The turn takes as long as its slowest call, not as all of them together.
 *
 * Calls that need an approval are left to `chat()`, which ends the run to ask; so are calls whose arguments
 * do not fit, which it answers itself.
 */
import type { ChatMiddleware, ChatMiddlewareContext, ModelMessage, ToolCall } from '@tanstack/ai'
import type { AnyTool } from './any-tool.js'
import type { DurableCalls } from './durable-calls.js'
import { durableCallsOf } from './durable-tool.js'
import { checkedBySchema } from './tool-schema.js'

/** For `chat({ tools, middleware: [parallelToolCalls(tools)] })`. Tools that are not durable are passed over. */
export function parallelToolCalls(tools: readonly AnyTool[]): ChatMiddleware {
  const durable = new Map<string, DurableCalls>()
  for (const tool of tools) {
    const calls = durableCallsOf(tool)
    if (calls && !tool.needsApproval) durable.set(tool.name, calls)
  }
  /** What was begun for each run, so that a call is begun once, and none is left behind. */
  const begun = new WeakMap<ChatMiddlewareContext, Map<string, DurableCalls>>()
  const dropRest = async (context: ChatMiddlewareContext) => {
    const left = [...(begun.get(context) ?? [])]
    await Promise.all(left.map(([id, calls]) => calls.dropAhead(id)))
  }
  return {
    name: 'parallel-tool-calls',
    async onBeforeToolCall(context) {
      const run = begun.get(context) ?? new Map<string, DurableCalls>()
      begun.set(context, run)
      const open = openCalls(context.messages).filter(({ id }) => !run.has(id))
      await Promise.all(
        open.map(async (call) => {
          const calls = durable.get(call.function.name)
          if (!calls) return
          run.set(call.id, calls)
          await beginAhead(calls, call, context)
        }),
      )
    },
    onFinish: dropRest,
    onAbort: dropRest,
    onError: dropRest,
  }
}

/** The last turn's calls that have no result yet. */
function openCalls(messages: readonly ModelMessage[]): ToolCall[] {
  const turn = messages.findLastIndex(({ toolCalls }) => (toolCalls?.length ?? 0) > 0)
  const answered = new Set(messages.slice(turn + 1).map(({ toolCallId }) => toolCallId))
  return (messages[turn]?.toolCalls ?? []).filter(({ id }) => !answered.has(id))
}

async function beginAhead(
  calls: DurableCalls,
  call: ToolCall,
  { context, signal }: ChatMiddlewareContext,
): Promise<void> {
  let args: unknown
  try {
    const parsed: unknown = JSON.parse(call.function.arguments.trim() || '{}')
    const given = typeof parsed === 'object' && parsed !== null ? parsed : {}
    args = await checkedBySchema(calls.tool.inputSchema, given, `arguments of ${calls.tool.name}`)
  } catch {
    // chat() refuses them in its turn and tells the model why.
    return
  }
  calls.beginAhead(args, { toolCallId: call.id, context, abortSignal: signal })
}
