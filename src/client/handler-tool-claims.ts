/**
 * The claim of a tool execution effect in a browser: of all tabs and devices that see a pending call, one runs it.
 *
 *     const claims = handlerToolClaims({ url: '/ai', sessionId })
 *     createToolExecutionEffect({ query, tools, implementations, claim: claims.claim })
 *
 * The handler decides who may (`execute-tools`), the database who does. A lease covers what this executor holds;
 * when it is lost, what runs is aborted and can settle nothing. A claim whose answer was lost may have committed:
 * then the lease it was made under is renewed only for what else runs under it, and later claims have another. A page that is closed loses its calls when
 * the lease runs out: the next one has them as another attempt.
 */
import { paths, type ClaimedToolCall } from '../contract/requests.js'
import type { ClaimToolCall, ToolClaim, ToolClaimOutcome } from '../contract/tool-claims.js'
import { AiDbError, FencedError } from '../errors.js'
import { absoluteUrl } from '../electric/collections.js'
import { delay, jittered } from '../internal/abort.js'
import { refuseUnknownOptions, requireNumber } from '../internal/options.js'
import {
  askToWrite,
  makeHandlerFetch,
  type HeadersOption,
  type WriteAnswer,
} from './handler-requests.js'

export interface HandlerToolClaimsOptions {
  /** Where the handler is mounted; relative to the page, or absolute. */
  url: string | URL
  sessionId: string
  /** One per tab or device. @default a random UUID */
  executorId?: string
  /** How long what a dead page held stays held, in ms, from 5,000 to 120,000. @default 30_000 */
  leaseMs?: number
  /** Sent with every request; a function is asked each time. */
  headers?: HeadersOption
  /** @default the global one */
  fetch?: typeof fetch
}

export interface HandlerToolClaims {
  /** For `createToolExecutionEffect({ claim })`. One may serve several effects. */
  readonly claim: ClaimToolCall<{ id: string; name: string }>
  /** Dispose the effects first. What is still held is others' when the lease has run out. */
  close(): void
}

const WHAT = 'handlerToolClaims()'
const KNOWN = ['url', 'sessionId', 'executorId', 'leaseMs', 'headers', 'fetch']
const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 10_000

/** @throws AiDbError INVALID_OPTION. */
export function handlerToolClaims(options: HandlerToolClaimsOptions): HandlerToolClaims {
  refuseUnknownOptions(WHAT, options, KNOWN)
  const { leaseMs = 30_000 } = options
  requireNumber(WHAT, 'leaseMs', leaseMs, 5_000)
  const executor = new HandlerExecutor({ ...options, leaseMs, url: absoluteUrl(options.url) })
  return { claim: (row) => executor.claim(row), close: () => executor.close() }
}

/** What one `workers` row stands for. */
interface Lease {
  readonly executorId: string
  readonly held: Map<string, AbortController>
  renewing: boolean
}

class HandlerExecutor {
  readonly #options: HandlerToolClaimsOptions & { url: string; leaseMs: number }
  readonly #executorId: string
  readonly #fetch: typeof fetch
  readonly #closed = new AbortController()
  readonly #leases = new Set<Lease>()
  #lease: Lease
  #leasesMade = 0

  constructor(options: HandlerToolClaimsOptions & { url: string; leaseMs: number }) {
    this.#options = options
    this.#executorId = options.executorId ?? crypto.randomUUID()
    this.#fetch = makeHandlerFetch(options)
    this.#lease = this.#newLease()
  }

  async claim({ id, name }: { id: string; name: string }): Promise<ToolClaim | false> {
    if (this.#closed.signal.aborted) return false
    const { sessionId, leaseMs } = this.#options
    const lease = this.#lease
    const { executorId, held } = lease
    const body = { executorId, tools: [name], toolCallIds: [id], leaseMs }
    const answer = await this.#ask(paths.claimTools(sessionId), body)
    if (answer.kind !== 'written') {
      if (answer.kind === 'passing' && lease === this.#lease) this.#lease = this.#newLease()
      throw answer.error
    }
    const [claimed] = answer.body['toolCalls'] as ClaimedToolCall[]
    if (!claimed) return false
    const lost = new AbortController()
    held.set(id, lost)
    void this.#renew(lease)
    const { attempt } = claimed
    return {
      attempt,
      signal: lost.signal,
      settle: (outcome) =>
        this.#settle(executorId, id, attempt, outcome).finally(() => held.delete(id)),
    }
  }

  close(): void {
    this.#closed.abort()
    for (const lease of this.#leases) loseAll(lease, 'The executor was closed.')
  }

  #newLease(): Lease {
    this.#leasesMade += 1
    return {
      executorId: `${this.#executorId}:${this.#leasesMade}`,
      held: new Map(),
      renewing: false,
    }
  }

  async #settle(
    executorId: string,
    id: string,
    attempt: number,
    outcome: ToolClaimOutcome,
  ): Promise<void> {
    const path = paths.settleTool(this.#options.sessionId, id)
    for (let tries = 0; ; tries += 1) {
      const answer = await this.#ask(path, { executorId, attempt, outcome })
      if (answer.kind === 'written') return
      const isFenced = answer.error.code === 'FENCED' || answer.error.code === 'NOT_FOUND'
      if (isFenced) throw new FencedError(`Tool call ${id}`, attempt)
      if (answer.kind === 'refused' || this.#closed.signal.aborted) throw answer.error
      const backoff = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(tries, 10))
      await delay(Math.max(answer.retryAfterMs, jittered(backoff)), this.#closed.signal)
    }
  }

  /** While something is held under it. */
  async #renew(lease: Lease): Promise<void> {
    if (lease.renewing) return
    lease.renewing = true
    this.#leases.add(lease)
    const { sessionId, leaseMs } = this.#options
    const { signal } = this.#closed
    const { executorId, held } = lease
    while (held.size > 0 && !signal.aborted) {
      await delay(jittered(leaseMs / 3), signal)
      if (held.size === 0 || signal.aborted) break
      const answer = await this.#ask(paths.renewTools(sessionId), { executorId, leaseMs })
      if (answer.kind === 'written' && answer.body['renewed'] === false) {
        loseAll(lease, 'The lease of this executor was lost.')
      }
    }
    lease.renewing = false
    this.#leases.delete(lease)
  }

  #ask(path: string, body: object): Promise<WriteAnswer> {
    const address = { url: this.#options.url, fetch: this.#fetch }
    // A signal of its own: many requests would be many listeners on one.
    const signal = AbortSignal.any([this.#closed.signal])
    return askToWrite(address, { method: 'POST', path, body }, signal)
  }
}

function loseAll({ held }: Lease, why: string): void {
  for (const lost of held.values()) lost.abort(new AiDbError('FENCED', why))
  held.clear()
}
