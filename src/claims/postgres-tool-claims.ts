/**
 * The claim of a tool execution effect over the contract tables: any number of consumers see a pending row,
 * one executes it, and its result is settled under its attempt.
 *
 * Each of these is a worker as far as the tables go: one lease row covers all it holds. It renews it, hears of
 * cancelled calls with that, and recovers what dead ones held; if its own lease is lost, what it runs is
 * aborted and can settle nothing. Claims and settles of one moment are one statement each.
 */
import type { ToolClaim, ToolClaimOutcome, ClaimToolCall } from '../contract/tool-claims.js'
import { AiDbError, FencedError, toError } from '../errors.js'
import { delay, jittered } from '../internal/abort.js'
import { isUnreachable } from '../internal/database-errors.js'
import { coalesced } from '../internal/coalesced.js'
import { refuseUnknownOptions, requireNumber } from '../internal/options.js'
import type { ToolCallSettlement } from './settle-tool-calls.js'
import type { Store } from './store.js'

export interface PostgresToolClaimsOptions {
  store: Store
  /** As shown in `workers`. @default 'tool-execution-effect' */
  name?: string
  /** How long what a dead process held stays held, in ms. @default 30_000 */
  leaseMs?: number
  /** A renewal that failed; it is tried again. @default nobody */
  onError?: (error: Error) => void
}

export interface PostgresToolClaims {
  /** For `createToolExecutionEffect({ claim })`. One may serve several effects. */
  readonly claim: ClaimToolCall
  /** Gives back what is still held, and is forgotten. Dispose the effects first. */
  close(): Promise<void>
}

const MOST_AT_ONCE = 500

/** @throws AiDbError INVALID_OPTION, NOT_MIGRATED, DATABASE_UNREACHABLE. */
export async function postgresToolClaims(
  options: PostgresToolClaimsOptions,
): Promise<PostgresToolClaims> {
  const what = 'postgresToolClaims()'
  refuseUnknownOptions(what, options, ['store', 'name', 'leaseMs', 'onError'])
  const { store, name = 'tool-execution-effect', leaseMs = 30_000, onError } = options
  requireNumber(what, 'leaseMs', leaseMs, 100)
  const holder = new ToolCallHolder(store, { name, leaseMs, onError: onError ?? (() => undefined) })
  await holder.register()
  const renewing = holder.keepAlive()
  return {
    claim: (row) => holder.claim(row.id),
    async close() {
      await holder.close()
      await renewing
    },
  }
}

interface HolderOptions {
  name: string
  leaseMs: number
  onError: (error: Error) => void
}

interface Held {
  attempt: number
  lost: AbortController
}

class ToolCallHolder {
  readonly #store: Store
  readonly #options: HolderOptions
  readonly #held = new Map<string, Held>()
  readonly #closed = new AbortController()
  readonly #claims: (id: string) => Promise<Held | false | 'later'>
  readonly #settles: (settlement: ToolCallSettlement) => Promise<boolean>
  #workerId = ''
  #claiming: Promise<unknown> = Promise.resolve()
  #answerLost = false

  constructor(store: Store, options: HolderOptions) {
    this.#store = store
    this.#options = options
    this.#claims = coalesced(MOST_AT_ONCE, (ids) => this.#claimAll(ids))
    this.#settles = coalesced(MOST_AT_ONCE, async (settlements) => {
      const settled = new Set(await store.settleToolCalls(settlements))
      return settlements.map(({ id }) => settled.has(id))
    })
  }

  async register(): Promise<void> {
    const id = `${this.#options.name}-${crypto.randomUUID()}`
    const { name, leaseMs } = this.#options
    await this.#store.registerWorker({
      ...{ id, name, leaseMs, agents: [], tools: [], slots: 1, locked: false, version: '' },
    })
    this.#workerId = id
  }

  async claim(id: string): Promise<ToolClaim | false | 'later'> {
    if (this.#closed.signal.aborted) return false
    const claimed = await this.#claims(id)
    if (claimed === false || claimed === 'later') return claimed
    const workerId = this.#workerId
    const { attempt, lost } = claimed
    const letGo = () => {
      if (this.#held.get(id)?.lost === lost) this.#held.delete(id)
    }
    return {
      attempt,
      signal: lost.signal,
      settle: (outcome) =>
        this.#settleWhenReachable({ id, attempt, outcome }, lost.signal).finally(letGo),
      release: () => this.#store.releaseToolCalls([id], workerId).finally(letGo),
    }
  }

  /** Until closed: renews the lease, aborts what was cancelled, recovers what the dead held. */
  async keepAlive(): Promise<void> {
    const { leaseMs, onError } = this.#options
    for (;;) {
      await delay(jittered(leaseMs / 3), this.#closed.signal)
      if (this.#closed.signal.aborted) return
      try {
        await this.#beat(leaseMs)
      } catch (error) {
        onError(toError(error))
      }
    }
  }

  async close(): Promise<void> {
    if (this.#closed.signal.aborted) return
    this.#closed.abort()
    const held = [...this.#held.keys()]
    this.#loseAll()
    await this.#store.releaseToolCalls(held, this.#workerId)
    await this.#store.deregisterWorker(this.#workerId)
  }

  async #beat(leaseMs: number): Promise<void> {
    if (!(await this.#store.renewLease(this.#workerId, leaseMs, false))) {
      // Whoever took the lease has given our calls back: all of them are others' now.
      this.#loseAll()
      await this.register()
    }
    for (const id of await this.#store.checkHeldToolCalls([...this.#held.keys()])) this.#lose(id)
    await this.#store.recoverWorkers()
  }

  #loseAll(): void {
    for (const id of [...this.#held.keys()]) this.#lose(id)
  }

  #lose(id: string): void {
    const held = this.#held.get(id)
    this.#held.delete(id)
    held?.lost.abort(new FencedError(`Tool call ${id}`, held.attempt))
  }

  /** One statement after another, so that what a lost answer left with us can be told from what is held. */
  #claimAll(ids: string[]): Promise<(Held | false | 'later')[]> {
    const claiming = this.#claiming.then(() => this.#claimNow(ids))
    this.#claiming = claiming.catch(() => undefined)
    return claiming
  }

  async #claimNow(ids: string[]): Promise<(Held | false | 'later')[]> {
    const workerId = this.#workerId
    if (this.#answerLost) await this.#store.releaseLostToolCalls(workerId, [...this.#held.keys()])
    this.#answerLost = true
    const { claimed, later } = await this.#store.claimToolCallsById(ids, workerId)
    this.#answerLost = false
    for (const { id, attempt } of claimed)
      this.#held.set(id, { attempt, lost: new AbortController() })
    const taken = new Set(claimed.map(({ id }) => id))
    return ids.map((id) => (taken.has(id) ? this.#held.get(id)! : later.includes(id) && 'later'))
  }

  /** A result is worth waiting for: while the database is away it is kept and offered again. */
  async #settleWhenReachable(
    { id, attempt, outcome }: { id: string; attempt: number; outcome: ToolClaimOutcome },
    lost: AbortSignal,
  ): Promise<void> {
    for (let tries = 0; ; tries += 1) {
      lost.throwIfAborted()
      try {
        if (await this.#settles({ id, attempt, outcome })) return
        throw new FencedError(`Tool call ${id}`, attempt)
      } catch (thrown) {
        if (!(thrown instanceof AiDbError) || !isUnreachable(thrown)) throw thrown
        this.#options.onError(thrown)
        await delay(jittered(Math.min(50 * 2 ** tries, 1_000)), lost)
      }
    }
  }
}
