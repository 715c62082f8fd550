/**
 * A tool call that needs approval, asked about at the terminal. Where there is nobody to ask (no terminal, or
 * `--json`), it is denied: the model is told, and the turn ends instead of waiting for a day.
 */
import { createInterface } from 'node:readline/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { and, eq } from 'drizzle-orm'
import type { PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import { toolCalls } from '../../src/schema.js'
import { approveToolCall, denyToolCall } from '../../src/server.js'
import type { GenerationUpdate } from '../../src/server.js'
import type { Screen } from './screen.js'

export interface ConsentOptions {
  db: PostgresJsDatabase
  screen: Screen
  sessionId: string
  generationId: string
  /** Tools that people are asked about. */
  tools: ReadonlySet<string>
  signal: AbortSignal
}

/** The stream tells of a call a moment before its row is there. */
const LOOK_EVERY_MS = 50

export class Consent {
  readonly #options: ConsentOptions
  readonly #asked = new Set<string>()

  constructor(options: ConsentOptions) {
    this.#options = options
  }

  /** Asks about calls that this update brings; the turn is read on meanwhile. */
  take({ transcript }: GenerationUpdate): void {
    const calls = transcript.steps.at(-1)?.toolCalls ?? []
    for (const { id, name, state } of calls) {
      if (state !== 'called' || !this.#options.tools.has(name) || this.#asked.has(id)) continue
      this.#asked.add(id)
      this.#settle(id).catch((error: unknown) => this.#options.screen.note(String(error)))
    }
  }

  async #settle(providerCallId: string): Promise<void> {
    const { db, sessionId, screen } = this.#options
    const call = await this.#row(providerCallId)
    if (!call) return
    const vote = { sessionId, toolCallId: call.id, argsHash: call.argsHash, actorId: 'terminal' }
    const asked = `${call.name} ${JSON.stringify(call.args)}`
    if (!process.stdin.isTTY) {
      await denyToolCall(db, { ...vote, reason: 'there is nobody at the terminal to ask' })
      return screen.note(`denied, as there is nobody to ask: ${asked}`)
    }
    const yes = await this.#ask(`allow ${asked}? [y/N] `)
    await (yes ? approveToolCall(db, vote) : denyToolCall(db, vote))
  }

  async #row(providerCallId: string) {
    const { db, generationId, signal } = this.#options
    const isCall = and(
      eq(toolCalls.generationId, generationId),
      eq(toolCalls.providerCallId, providerCallId),
    )
    while (!signal.aborted) {
      const [row] = await db.select().from(toolCalls).where(isCall)
      if (row) return row.status === 'pending' ? row : undefined
      await delay(LOOK_EVERY_MS)
    }
    return undefined
  }

  async #ask(question: string): Promise<boolean> {
    const { screen, signal } = this.#options
    screen.endLine()
    const lines = createInterface({ input: process.stdin, output: process.stderr })
    try {
      return /^y(es)?$/i.test((await lines.question(question, { signal })).trim())
    } finally {
      lines.close()
    }
  }
}
