/**
 * Neighbouring deltas of the same thing as one chunk, so that fifty tokens a second are four rows and not
 * fifty. The order of what is not merged stays; nothing is held for longer than `packMs`.
 */
import type { StreamChunk } from '@tanstack/ai'

type DeltaChunk = StreamChunk & { delta: string }

const DELTA_KEYS: Readonly<Record<string, string>> = {
  TEXT_MESSAGE_CONTENT: 'messageId',
  REASONING_MESSAGE_CONTENT: 'messageId',
  TOOL_CALL_ARGS: 'toolCallId',
}

export class ChunkPacker {
  readonly #packMs: number
  readonly #maxChars: number
  readonly #emit: (chunk: StreamChunk) => void
  #held: DeltaChunk | undefined
  #timer: ReturnType<typeof setTimeout> | undefined

  /** @param emit Is given the chunks, merged, in order; must not throw. */
  constructor(packMs: number, maxChars: number, emit: (chunk: StreamChunk) => void) {
    this.#packMs = packMs
    this.#maxChars = maxChars
    this.#emit = emit
  }

  take(chunk: StreamChunk): void {
    const merged = this.#held && mergedDelta(this.#held, chunk)
    if (!merged) this.flush()
    this.#held = merged ?? (isDelta(chunk) ? chunk : undefined)
    if (this.#held === undefined) return this.#emit(chunk)
    if (this.#packMs <= 0 || this.#held.delta.length >= this.#maxChars) return this.flush()
    this.#timer ??= setTimeout(() => this.flush(), this.#packMs)
  }

  flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const held = this.#held
    this.#held = undefined
    if (held) this.#emit(held)
  }
}

function isDelta(chunk: StreamChunk): chunk is DeltaChunk {
  return chunk.type in DELTA_KEYS && typeof (chunk as { delta?: unknown }).delta === 'string'
}

function mergedDelta(before: DeltaChunk, chunk: StreamChunk): DeltaChunk | undefined {
  if (!isDelta(chunk) || chunk.type !== before.type) return undefined
  const key = DELTA_KEYS[chunk.type] as keyof StreamChunk
  if (before[key] !== chunk[key]) return undefined
  return { ...chunk, delta: before.delta + chunk.delta } as DeltaChunk
}
