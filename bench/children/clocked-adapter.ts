/**
 * A model whose every token is the time at which it was yielded, so that a reader in another process can tell
 * how long it took. How many it gives is what the newest message says.
 *
 * Its pace is an absolute schedule, and its first token waits until readers are there; streams begin at
 * random phases, as people do.
 */
import { EventType, type AdapterYieldChunk, type TextOptions } from '@tanstack/ai'
import { BaseTextAdapter } from '@tanstack/ai/adapters'
import { setTimeout as delay } from 'node:timers/promises'
import { messageText } from '../../src/testing.js'
import { now } from '../clock.js'
import { tell } from './parent.js'

const READERS_COME_MS = 1_000
const PHASES_MS = 200

export class ClockedAdapter extends BaseTextAdapter<
  string,
  Record<string, unknown>,
  readonly ['text'],
  any
> {
  readonly name = 'clocked'
  readonly #tokensPerSecond: number
  #running = 0
  #paces: number[] = []
  #lateness: number[] = []

  constructor(tokensPerSecond: number) {
    super({}, 'clocked')
    this.#tokensPerSecond = tokensPerSecond
  }

  async *chatStream(
    options: TextOptions<Record<string, unknown>>,
  ): AsyncGenerator<AdapterYieldChunk> {
    this.#running += 1
    const { model } = this
    const head = { runId: options.runId ?? 'run', threadId: options.threadId ?? 'thread', model }
    const messageId = crypto.randomUUID()
    const count = Number(messageText(options.messages.at(-1)!))
    yield { type: EventType.RUN_STARTED, ...head, timestamp: Date.now() }
    yield {
      type: EventType.TEXT_MESSAGE_START,
      role: 'assistant',
      messageId,
      timestamp: Date.now(),
    }
    for await (const delta of this.#tokens(count)) {
      yield { type: EventType.TEXT_MESSAGE_CONTENT, messageId, delta, timestamp: Date.now() }
    }
    yield { type: EventType.TEXT_MESSAGE_END, messageId, timestamp: Date.now() }
    this.#tellPaces()
    yield { type: EventType.RUN_FINISHED, ...head, finishReason: 'stop', timestamp: Date.now() }
  }

  structuredOutput(): Promise<never> {
    return Promise.reject(new Error('The clocked model tells the time and nothing else.'))
  }

  async *#tokens(count: number): AsyncGenerator<string> {
    await delay(READERS_COME_MS + Math.random() * PHASES_MS)
    const first = now()
    let last = first
    for (let token = 0; token < count; token += 1) {
      const due = first + (token * 1000) / this.#tokensPerSecond
      const wait = due - now()
      if (wait > 0) await delay(wait)
      last = now()
      this.#lateness.push(last - due)
      yield `${last.toFixed(1)} `
    }
    this.#paces.push(((count - 1) * 1000) / (last - first))
  }

  /** When the last stream has ended. */
  #tellPaces(): void {
    this.#running -= 1
    if (this.#running > 0) return
    tell({ type: 'paces', tokensPerSecond: this.#paces, latenessMs: this.#lateness })
    this.#paces = []
    this.#lateness = []
  }
}
