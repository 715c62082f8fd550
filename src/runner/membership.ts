/**
 * Membership: a worker's life among the others. It takes its lock, registers, renews its lease, watches its
 * neighbour and does its share of recovery. When it finds its lease lost it is over: whoever holds it
 * drops everything and joins again under a new id, as the old attempts are fenced.
 */
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { expireWaits, recoverWorkers, type Recovered } from '../claims/recover.js'
import { deregisterWorker, registerWorker, renewLease } from '../claims/workers.js'
import { toError } from '../errors.js'
import { jittered } from '../internal/abort.js'
import type { Database } from '../internal/database.js'
import { openDoorbell, type Doorbell, type DoorbellOptions } from './doorbell.js'
import type { WorkerEventListener } from './events.js'
import { watchNeighbour, type Watch } from './watch.js'
import { VERSION } from './version.js'

export interface MembershipOptions {
  db: Database
  agents: readonly string[]
  tools: readonly string[]
  slots: number
  /** How long others wait for a silent worker before they take its work, in ms. */
  leaseMs: number
  doorbell: NonNullable<DoorbellOptions['mode']>
  emit: WorkerEventListener
}

export interface Membership {
  readonly workerId: string
  readonly doorbell: Doorbell
  /** Aborts when the lease is lost: nothing held under this id may be written any more. */
  readonly lost: AbortSignal
  /** Gives up the lease and the lock. */
  leave(): Promise<void>
}

export async function joinWorkers(options: MembershipOptions): Promise<Membership> {
  const member = new Member(options)
  await member.join()
  return member
}

class Member implements Membership {
  readonly workerId = randomUUID()
  doorbell!: Doorbell
  readonly #options: MembershipOptions
  readonly #lost = new AbortController()
  #watch: Watch | undefined
  #timer: NodeJS.Timeout | undefined
  #renewed = performance.now()
  #round: Promise<void> = Promise.resolve()
  #left = false

  constructor(options: MembershipOptions) {
    this.#options = options
  }

  get lost(): AbortSignal {
    return this.#lost.signal
  }

  async join(): Promise<void> {
    const { db, agents, tools, slots, leaseMs, emit } = this.#options
    const onError = (error: Error) => emit({ type: 'error', error })
    // The lock before the row: a watcher that sees the row must not find the lock free.
    this.doorbell = await openDoorbell({
      db,
      workerId: this.workerId,
      mode: this.#options.doorbell,
      onError,
    })
    await registerWorker(db, {
      id: this.workerId,
      name: `${hostname()}:${process.pid}`,
      agents,
      tools,
      slots,
      locked: this.doorbell.locked,
      leaseMs,
      version: VERSION,
    })
    this.#renewed = performance.now()
    if (this.doorbell.mode === 'listen') {
      const watch = watchNeighbour({
        db,
        workerId: this.workerId,
        onDead: (id) => this.#recover([id]),
        onError,
      })
      this.#watch = watch
      this.doorbell.onRing((ring) => {
        if (ring.kind === 'workers' || ring.kind === 'missed') watch.lookAgain()
      })
    }
    this.#round = this.#tick()
  }

  async leave(): Promise<void> {
    if (this.#left) return
    this.#left = true
    clearTimeout(this.#timer)
    await this.#watch?.close()
    await this.#round
    try {
      await deregisterWorker(this.#options.db, this.workerId)
    } catch (error) {
      this.#options.emit({ type: 'error', error: toError(error) })
    }
    await this.doorbell.close()
  }

  /** Renew, recover, expire; then again a third of a lease later. */
  async #tick(): Promise<void> {
    const { db, leaseMs, emit } = this.#options
    try {
      const began = performance.now()
      if (!(await renewLease(db, this.workerId, leaseMs, this.doorbell.locked))) return this.#lose()
      this.#renewed = began
      await this.#recover([])
      await expireWaits(db)
    } catch (error) {
      emit({ type: 'error', error: toError(error) })
      // By our own steady clock the lease is over: others may hold our work already.
      if (performance.now() - this.#renewed > leaseMs) return this.#lose()
    }
    if (this.#left || this.#lost.signal.aborted) return
    this.#timer = setTimeout(
      () => {
        this.#round = this.#tick()
      },
      jittered(leaseMs / 3),
    )
  }

  async #recover(dead: readonly string[]): Promise<void> {
    const recovered = await recoverWorkers(this.#options.db, dead)
    if (!isEmpty(recovered)) {
      this.#options.emit({
        type: 'recovered',
        workers: recovered.workers,
        generations: recovered.generations.length,
        toolCalls: recovered.toolCalls.length,
      })
    }
  }

  #lose(): void {
    if (this.#left || this.#lost.signal.aborted) return
    this.#options.emit({ type: 'lease-lost', workerId: this.workerId })
    this.#lost.abort()
  }
}

const isEmpty = (recovered: Recovered) =>
  recovered.workers.length + recovered.generations.length + recovered.toolCalls.length === 0
