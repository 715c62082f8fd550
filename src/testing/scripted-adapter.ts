/**
 * A TanStack AI text adapter whose model is a script: what each call answers is given by the test, so
 * agents run offline, at a chosen pace, and fail exactly where the test wants.
 *
 * It honours the abort signal of its request everywhere, records every request it saw, and yields the
 * events of a provider adapter (see `scripted-turn.ts`). It is not a mock of a provider's wire format:
 * for that, run the real adapter against an HTTP mock (see `test/agent/provider-adapters.test.ts`).
 */
import {
  normalizeSystemPrompts,
  type AdapterYieldChunk,
  type DefaultMessageMetadataByModality,
  type ModelMessage,
  type TextOptions,
} from '@tanstack/ai'
import {
  BaseTextAdapter,
  type StructuredOutputOptions,
  type StructuredOutputResult,
} from '@tanstack/ai/adapters'
import { AiDbError } from '../errors.js'
import { playTurn, type ScriptedTurn } from './scripted-turn.js'
import { ABORTED, untilAborted } from './until-aborted.js'

export type { ScriptedToolCall, ScriptedTurn } from './scripted-turn.js'

/** One call of the model, as the adapter saw it. */
export interface ScriptedRequest {
  /** Index of this call on this adapter, from 0. */
  call: number
  /** The messages of the request, copied: later turns do not change them. */
  messages: readonly ModelMessage[]
  /** Names of the tools offered. */
  tools: readonly string[]
  systemPrompts: readonly string[]
  /** Fires when the run is cancelled; undefined when `chat()` got no `abortController`. */
  signal: AbortSignal | undefined
}

interface ScriptedPace {
  /** Deltas a second, on an absolute schedule. @default as fast as they are read */
  tokensPerSecond?: number
  /** The model's name. @default 'scripted' */
  model?: string
}

/** Either a function of the request, or a list with one turn per model call. */
export type ScriptedAdapterOptions = ScriptedPace &
  (
    | { respond: Respond; turns?: undefined }
    /** A call past the end throws. */
    | { turns: readonly ScriptedTurn[]; respond?: undefined }
  )

type Respond = (request: ScriptedRequest) => ScriptedTurn | Promise<ScriptedTurn>
type ProviderOptions = Record<string, unknown>

export function scriptedAdapter(options: ScriptedAdapterOptions): ScriptedAdapter {
  return new ScriptedAdapter(options)
}

export class ScriptedAdapter extends BaseTextAdapter<
  string,
  ProviderOptions,
  readonly ['text'],
  DefaultMessageMetadataByModality
> {
  readonly name = 'scripted'
  /** Every request so far, oldest first. */
  readonly calls: ScriptedRequest[] = []
  readonly #respond: Respond
  readonly #tokensPerSecond: number | undefined

  constructor(options: ScriptedAdapterOptions) {
    super({}, options.model ?? 'scripted')
    this.#respond = resolveRespond(options)
    this.#tokensPerSecond = resolvePace(options.tokensPerSecond)
  }

  async *chatStream(options: TextOptions<ProviderOptions>): AsyncGenerator<AdapterYieldChunk> {
    const request = this.#record(options)
    const turn = await untilAborted(this.#respond(request), request.signal)
    if (turn === ABORTED) return
    yield* playTurn(turn, {
      model: this.model,
      threadId: options.threadId ?? `thread_${crypto.randomUUID()}`,
      runId: options.runId ?? `run_${crypto.randomUUID()}`,
      parentRunId: options.parentRunId,
      signal: request.signal,
      tokensPerSecond: this.#tokensPerSecond,
    })
  }

  /** Answers with the turn's text, which must be JSON. Unpaced: there is nothing to watch. */
  async structuredOutput(
    options: StructuredOutputOptions<ProviderOptions>,
  ): Promise<StructuredOutputResult<unknown>> {
    const turn = await this.#respond(this.#record(options.chatOptions))
    if (turn.then === 'error' || turn.then === 'throw') {
      throw new Error(turn.error ?? 'The scripted model failed.')
    }
    const rawText = turn.text ?? ''
    const usage = turn.usage === undefined ? {} : { usage: turn.usage }
    try {
      return { data: JSON.parse(rawText) as unknown, rawText, ...usage }
    } catch (cause) {
      const message =
        `The scripted text is not JSON, and structured output was asked for: "${rawText.slice(0, 80)}". ` +
        'Script a turn whose text is the JSON of the wanted object.'
      throw new AiDbError('PROVIDER_FAILED', message, { cause })
    }
  }

  #record(options: TextOptions<ProviderOptions>): ScriptedRequest {
    const request: ScriptedRequest = {
      call: this.calls.length,
      messages: [...options.messages],
      tools: (options.tools ?? []).map((tool) => tool.name),
      systemPrompts: normalizeSystemPrompts(options.systemPrompts).map((prompt) => prompt.content),
      signal: options.request?.signal ?? undefined,
    }
    this.calls.push(request)
    return request
  }
}

/**
 * What remains of `full` when the request ends in an assistant's unfinished text (the prefill of an
 * answer that was cut), else all of `full`; also all of it when that text is not how `full` begins.
 */
export function continueFrom(full: string, messages: readonly ModelMessage[]): string {
  const begun: string[] = []
  for (const message of messages.toReversed()) {
    if (message.role !== 'assistant' || message.toolCalls?.length) break
    begun.unshift(messageText(message))
  }
  // Cut more than once, an answer may come back in pieces: all of them together, or the last alone.
  const prefix = [begun.join(''), begun.at(-1) ?? ''].find((text) => full.startsWith(text)) ?? ''
  return full.slice(prefix.length)
}

/** The text of a message, its parts joined. */
export function messageText(message: ModelMessage): string {
  if (typeof message.content === 'string') return message.content
  return (message.content ?? []).map((part) => (part.type === 'text' ? part.content : '')).join('')
}

function resolveRespond({ respond, turns }: ScriptedAdapterOptions): Respond {
  if (respond !== undefined && turns === undefined) return async (request) => respond(request)
  if (turns === undefined || respond !== undefined) {
    const message = 'scriptedAdapter needs `respond` or `turns`, and not both. Give one of them.'
    throw new AiDbError('INVALID_OPTION', message, { field: 'respond' })
  }
  return async ({ call }) => {
    const turn = turns[call]
    if (turn !== undefined) return turn
    throw new AiDbError(
      'PROVIDER_FAILED',
      `The script has ${turns.length} turn(s) and the model was called ${call + 1} times. ` +
        'Add a turn, or use `respond` to answer any number of calls.',
    )
  }
}

function resolvePace(tokensPerSecond: number | undefined): number | undefined {
  if (tokensPerSecond === undefined || tokensPerSecond > 0) return tokensPerSecond
  throw new AiDbError(
    'INVALID_OPTION',
    `tokensPerSecond must be more than 0, and is ${tokensPerSecond}. Leave it out for no pace.`,
    { field: 'tokensPerSecond' },
  )
}
