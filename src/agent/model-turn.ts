/**
 * One model turn: one `chat()` call limited to one iteration, its events turned into transcript items as they
 * come. The tools are given without their functions, so the turn ends where they would run; running them
 * durably is the worker's business. Why one call a turn: docs/decisions/0001-one-chat-call-per-step.md.
 */
import { chat, convertSchemaToJsonSchema, maxIterations } from '@tanstack/ai'
import type { AnyTextAdapter, ChatMiddleware, ModelMessage, StreamChunk, Tool } from '@tanstack/ai'
import { AiDbError, toError } from '../errors.js'
import { raceAbort } from '../internal/abort.js'
import type { TranscriptItem } from '../streams/transcript.js'
import type { RunnableTool } from '../tools/run-tool.js'

export interface ModelTurnOptions {
  adapter: AnyTextAdapter
  instructions: string
  messages: ModelMessage[]
  tools: readonly ToolDescription[]
  middleware: readonly ChatMiddleware[]
  modelOptions: Record<string, unknown> | undefined
  sessionId: string
  generationId: string
  step: number
  signal: AbortSignal
  idleTimeoutMs: number
  /** Called with each item as it arrives; awaited, so that a slow consumer slows the provider. */
  onItem: (item: TranscriptItem) => void | Promise<void>
}

export type ToolDescription = Pick<RunnableTool, 'name' | 'description' | 'inputSchema'>

export interface AskedToolCall {
  providerCallId: string
  name: string
  /** The arguments' JSON text, as it came. */
  argumentsText: string
}

export interface ModelTurn {
  text: string
  toolCalls: AskedToolCall[]
  finishReason: string | undefined
  inputTokens: number
  outputTokens: number
  providerResponseId: string | undefined
}

/**
 * @throws AiDbError PROVIDER_FAILED when the adapter threw or yielded an error, TIMEOUT when it went silent;
 *   the signal's reason when that aborted.
 */
export async function runModelTurn(options: ModelTurnOptions): Promise<ModelTurn> {
  const turn = new TurnCollector(options.step)
  const abortController = new AbortController()
  const giveUp = AbortSignal.any([options.signal, abortController.signal])
  const idle = idleTimer(options.idleTimeoutMs, () =>
    abortController.abort(wentSilent(options.idleTimeoutMs)),
  )
  const follow = () => abortController.abort(options.signal.reason)
  options.signal.addEventListener('abort', follow, { once: true })
  try {
    const stream = chat({
      adapter: options.adapter,
      messages: options.messages,
      systemPrompts: [options.instructions],
      tools: options.tools.map(withoutFunction),
      // chat() types its middleware by the interrupts it declares; there are none.
      middleware: [...options.middleware, turn.usageMiddleware] as never,
      agentLoopStrategy: maxIterations(1),
      threadId: options.sessionId,
      runId: `${options.generationId}:${options.step}`,
      abortController,
      // What goes wrong is an error of this turn and a typed event; it need not be printed as well.
      debug: false,
      ...(options.modelOptions && { modelOptions: options.modelOptions as never }),
    })
    await raceAbort(consume(stream, turn, idle, options.onItem, giveUp), giveUp)
    giveUp.throwIfAborted()
    return turn.result
  } catch (thrown) {
    options.signal.throwIfAborted()
    if (abortController.signal.aborted) throw abortController.signal.reason
    throw thrown instanceof AiDbError ? thrown : providerFailed(toError(thrown).message, thrown)
  } finally {
    idle.stop()
    options.signal.removeEventListener('abort', follow)
    abortController.abort()
  }
}

async function consume(
  stream: AsyncIterable<StreamChunk>,
  turn: TurnCollector,
  idle: IdleTimer,
  onItem: ModelTurnOptions['onItem'],
  signal: AbortSignal,
): Promise<void> {
  for await (const chunk of stream) {
    // A provider that ignores the abort has been left behind: what it still says is nobody's text.
    if (signal.aborted) return
    idle.reset()
    const item = turn.take(chunk)
    if (item) await onItem(item)
  }
}

/** Events of one turn, folded into its result; each event gives at most one transcript item. */
class TurnCollector {
  readonly result: ModelTurn = {
    text: '',
    toolCalls: [],
    finishReason: undefined,
    inputTokens: 0,
    outputTokens: 0,
    providerResponseId: undefined,
  }
  readonly usageMiddleware: ChatMiddleware
  readonly #step: number
  readonly #calls = new Map<string, AskedToolCall>()

  constructor(step: number) {
    this.#step = step
    // The finishing event of a turn with tool calls does not reach the stream; this hook always runs.
    this.usageMiddleware = {
      name: 'electric-ai-db/usage',
      onUsage: (_context, usage) => {
        this.result.inputTokens += usage.promptTokens ?? 0
        this.result.outputTokens += usage.completionTokens ?? 0
      },
    }
  }

  take(chunk: StreamChunk): TranscriptItem | undefined {
    const step = this.#step
    switch (chunk.type) {
      case 'TEXT_MESSAGE_CONTENT':
        this.result.text += chunk.delta
        return { type: 'text', step, delta: chunk.delta }
      case 'REASONING_MESSAGE_CONTENT':
        return { type: 'thinking', step, delta: chunk.delta }
      case 'TOOL_CALL_START':
        return this.#startCall(chunk.toolCallId, chunk.toolCallName)
      case 'TOOL_CALL_ARGS':
        return this.#extendCall(chunk.toolCallId, chunk.delta)
      case 'TOOL_CALL_END':
        return this.#calls.has(chunk.toolCallId)
          ? { type: 'tool-call-end', step, id: chunk.toolCallId }
          : undefined
      case 'RUN_ERROR':
        throw providerFailed(chunk.message, chunk)
      default:
        this.#note(chunk)
        return undefined
    }
  }

  #startCall(id: string, name: string): TranscriptItem {
    const call = { providerCallId: id, name, argumentsText: '' }
    this.#calls.set(id, call)
    this.result.toolCalls.push(call)
    return { type: 'tool-call-start', step: this.#step, id, name }
  }

  #extendCall(id: string, delta: string): TranscriptItem | undefined {
    const call = this.#calls.get(id)
    if (!call) return undefined
    call.argumentsText += delta
    return { type: 'tool-call-args', step: this.#step, id, delta }
  }

  #note(chunk: StreamChunk): void {
    const metadata = (
      chunk as { metadata?: { responseId?: unknown; tanstack?: { finishReason?: unknown } } }
    ).metadata
    if (typeof metadata?.responseId === 'string')
      this.result.providerResponseId = metadata.responseId
    const reason = metadata?.tanstack?.finishReason
    if (chunk.type === 'RUN_FINISHED' && typeof reason === 'string')
      this.result.finishReason = reason
  }
}

/** As a definition without a function, its schema as JSON Schema: `chat()` then checks and runs nothing. */
function withoutFunction(tool: ToolDescription): Tool {
  return {
    name: tool.name,
    description: tool.description ?? '',
    inputSchema: convertSchemaToJsonSchema(
      tool.inputSchema as Parameters<typeof convertSchemaToJsonSchema>[0],
    ),
  } as Tool
}

interface IdleTimer {
  reset(): void
  stop(): void
}

function idleTimer(ms: number, onIdle: () => void): IdleTimer {
  const timer = setTimeout(onIdle, ms)
  return { reset: () => timer.refresh(), stop: () => clearTimeout(timer) }
}

function wentSilent(ms: number): AiDbError {
  return new AiDbError(
    'TIMEOUT',
    `The provider sent nothing for ${ms} ms. Raise idleTimeoutMs if this model thinks longer.`,
  )
}

function providerFailed(told: string, cause: unknown): AiDbError {
  return new AiDbError(
    'PROVIDER_FAILED',
    `The model provider failed: ${told}. Check the adapter's key, model and limits.`,
    { cause },
  )
}
