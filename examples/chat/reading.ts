/** What the reader of one answer has seen, and when: everything here is measured at the reader. */
import type { GenerationUpdate } from '../../src/server.js'

export class Reading {
  /** Everything shown, joined; what was taken back is not in it. */
  shown = ''
  /** What of it came by the stream, before the row had the last word. */
  streamed = ''
  /** How often shown text was taken back. */
  rewrites = 0
  firstTokenMs: number | null = null
  killToNextTokenMs: number | null = null
  killed = false
  readonly #began = performance.now()
  #streamingSince = 0
  #killedAt = 0
  #killedAttempt = Infinity

  take(update: GenerationUpdate): void {
    const now = performance.now()
    if (update.rewritten) this.rewrites += 1
    this.shown = update.rewritten ? update.text : this.shown + update.appended
    if (update.status === 'streaming') this.streamed = this.shown
    if (this.shown !== '' && this.firstTokenMs === null) {
      this.firstTokenMs = rounded(now - this.#began)
      this.#streamingSince = now
    }
    // A finished row without a word from the next attempt is no token of it.
    const isNew = update.appended !== '' || (update.rewritten && update.text !== '')
    if (
      isNew &&
      this.killToNextTokenMs === null &&
      update.transcript.attempt > this.#killedAttempt
    ) {
      this.killToNextTokenMs = rounded(now - this.#killedAt)
    }
  }

  /** The process that held `attempt` was killed just now. */
  noteKill(attempt: number): void {
    this.killed = true
    this.#killedAt = performance.now()
    this.#killedAttempt = attempt
  }

  get tokens(): number {
    return this.shown.match(/\S+/g)?.length ?? 0
  }

  get tokensPerSecond(): number {
    const seconds = (performance.now() - this.#streamingSince) / 1000
    return seconds > 0.1 ? Math.round(this.tokens / seconds) : 0
  }
}

const rounded = (ms: number) => Math.round(ms * 10) / 10
