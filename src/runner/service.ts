/**
 * What a worker and a tool executor have in common: membership, a consumer with slots, an abort signal per
 * item, graceful stop, and a new membership when the lease was lost.
 */
import { toError } from '../errors.js'
import { delay, jittered } from '../internal/abort.js'
import type { Database } from '../internal/database.js'
import { RunEnd } from './agent-run.js'
import { startConsumer, type Consumer } from './consumer.js'
import type { DoorbellOptions, Ring } from './doorbell.js'
import type { WorkerEventListener } from './events.js'
import { joinWorkers, type Membership } from './membership.js'

/** What a run gets from its service. */
export interface Held {
  workerId: string
  /** Aborts with a RunEnd. */
  signal: AbortSignal
  onRing(listener: (ring: Ring) => void): () => void
  pollIntervalMs: number
  afterwards(work: Promise<unknown>): void
}

export interface ServiceOptions<Item extends { id: string }> {
  db: Database
  agents: readonly string[]
  tools: readonly string[]
  slots: number
  leaseMs: number
  pollIntervalMs: number
  shutdownGraceMs: number
  doorbell: NonNullable<DoorbellOptions['mode']>
  handleSignals: boolean
  emit: WorkerEventListener
  claim(limit: number, workerId: string): Promise<Item[]>
  concerns(ring: Ring): boolean
  /** Runs one item to its end; never rejects. */
  run(item: Item, held: Held): Promise<void>
  /** Gives back what this worker holds and does not run: a claim whose answer was lost. */
  releaseLost(workerId: string, running: readonly string[]): Promise<void>
  /** Of these items, those that were cancelled: asked where no notification tells. */
  cancelledIds(ids: readonly string[]): Promise<string[]>
}

export interface Service {
  readonly workerId: string
  readonly running: number
  stop(): Promise<void>
}

export async function startService<Item extends { id: string }>(
  options: ServiceOptions<Item>,
): Promise<Service> {
  const service = new MemberService(options)
  await service.join()
  if (options.handleSignals) service.stopOnSignals()
  return service
}

class MemberService<Item extends { id: string }> implements Service {
  readonly #options: ServiceOptions<Item>
  readonly #aborts = new Map<string, AbortController>()
  readonly #afterwards = new Set<Promise<unknown>>()
  #member!: Membership
  #consumer!: Consumer
  #poll: NodeJS.Timeout | undefined
  #stopped: Promise<void> | undefined
  #rejoining: Promise<void> = Promise.resolve()
  /** A claim failed: it may have committed, and its answer been lost. */
  #claimLost = false

  constructor(options: ServiceOptions<Item>) {
    this.#options = options
  }

  get workerId(): string {
    return this.#member.workerId
  }

  get running(): number {
    return this.#consumer.running
  }

  async join(): Promise<void> {
    const { db, agents, tools, slots, leaseMs, doorbell, emit, pollIntervalMs } = this.#options
    const member = await joinWorkers({ db, agents, tools, slots, leaseMs, doorbell, emit })
    this.#member = member
    member.doorbell.onRing((ring) => {
      if (ring.kind === 'cancelled') this.#abort(ring.id, 'cancelled')
      if (ring.kind === 'missed') void this.#abortCancelled()
    })
    const onLost = () => {
      this.#rejoining = this.#rejoin()
    }
    member.lost.addEventListener('abort', onLost, { once: true })
    if (member.doorbell.mode === 'poll') {
      this.#poll = setInterval(() => void this.#abortCancelled(), pollIntervalMs)
    }
    this.#consumer = startConsumer({
      db,
      member,
      slots,
      pollIntervalMs,
      emit,
      work: {
        claim: (limit, workerId) => this.#claim(limit, workerId),
        concerns: (ring) => this.#options.concerns(ring),
        run: (item) => this.#run(item, member),
      },
    })
    emit({ type: 'started', workerId: member.workerId, mode: member.doorbell.mode })
  }

  stop(): Promise<void> {
    return (this.#stopped ??= this.#stop())
  }

  stopOnSignals(): void {
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => void this.stop())
  }

  async #claim(limit: number, workerId: string): Promise<Item[]> {
    if (this.#claimLost) await this.#options.releaseLost(workerId, [...this.#aborts.keys()])
    this.#claimLost = true
    const items = await this.#options.claim(limit, workerId)
    this.#claimLost = false
    return items
  }

  async #run(item: Item, member: Membership): Promise<void> {
    const abort = new AbortController()
    this.#aborts.set(item.id, abort)
    try {
      await this.#options.run(item, {
        workerId: member.workerId,
        signal: abort.signal,
        onRing: (listener) => member.doorbell.onRing(listener),
        pollIntervalMs: this.#options.pollIntervalMs,
        afterwards: (work) => this.#keep(work),
      })
    } finally {
      if (this.#aborts.get(item.id) === abort) this.#aborts.delete(item.id)
    }
  }

  #keep(work: Promise<unknown>): void {
    // A stream that cannot be closed costs its readers a look at the row, nothing else.
    const kept = work.catch(() => undefined).finally(() => this.#afterwards.delete(kept))
    this.#afterwards.add(kept)
  }

  #abort(id: string, why: RunEnd['why']): void {
    this.#aborts.get(id)?.abort(new RunEnd(why))
  }

  async #abortCancelled(): Promise<void> {
    try {
      const ids = await this.#options.cancelledIds([...this.#aborts.keys()])
      for (const id of ids) this.#abort(id, 'cancelled')
    } catch (error) {
      this.#options.emit({ type: 'error', error: toError(error) })
    }
  }

  /** The lease is lost: every attempt held under the old id is fenced. Drop them and begin anew. */
  async #rejoin(): Promise<void> {
    const lost = this.#member
    const consumer = this.#consumer
    clearInterval(this.#poll)
    for (const abort of this.#aborts.values()) abort.abort(new RunEnd('lease-lost'))
    await consumer.stop()
    await lost.leave()
    for (let tries = 0; this.#stopped === undefined; tries += 1) {
      try {
        return await this.join()
      } catch (error) {
        this.#options.emit({ type: 'error', error: toError(error) })
        await delay(jittered(Math.min(100 * 2 ** tries, 5_000)))
      }
    }
  }

  async #stop(): Promise<void> {
    await this.#rejoining
    clearInterval(this.#poll)
    await this.#consumer.stop()
    const grace = new AbortController()
    await Promise.race([this.#consumer.idle(), delay(this.#options.shutdownGraceMs, grace.signal)])
    grace.abort()
    for (const abort of this.#aborts.values()) abort.abort(new RunEnd('shutdown'))
    await this.#consumer.idle()
    await Promise.all(this.#afterwards)
    await this.#member.leave()
    this.#options.emit({ type: 'stopped', workerId: this.#member.workerId })
  }
}
