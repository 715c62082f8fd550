/**
 * The consumer: fills its slots with claimed work and sleeps when there is none.
 *
 *     awake ──claim got all it asked for──► awake
 *       │ claim got less
 *       ▼
 *     falling asleep ──somebody may have missed that we sleep──► claim again
 *       │ everybody has seen it
 *       ▼
 *     asleep ──ring · a slot came free · the next scheduled row · the slow poll──► awake
 *
 * The flag `workers.sleeping` stays on while slots are free: a quiet system rings for every row. Only a
 * worker that has been full for a while turns it off, which is when a NOTIFY in every transaction would cost.
 */
import { checkBarrier, nextRunMs, setSleeping } from '../claims/workers.js'
import { toError } from '../errors.js'
import { deferred, delay, jittered, type Deferred } from '../internal/abort.js'
import type { Database } from '../internal/database.js'
import type { Ring } from './doorbell.js'
import type { WorkerEventListener } from './events.js'
import type { Membership } from './membership.js'

export interface Work<Item> {
  claim(limit: number, workerId: string): Promise<Item[]>
  /** Runs one item to its end. Never rejects. */
  run(item: Item): Promise<void>
  /** Is this ring about such work? */
  concerns(ring: Ring): boolean
}

export interface ConsumerOptions<Item> {
  db: Database
  member: Membership
  work: Work<Item>
  slots: number
  pollIntervalMs: number
  emit: WorkerEventListener
}

export interface Consumer {
  readonly running: number
  /** Claims nothing more. Resolves when no claim is under way; what runs goes on. */
  stop(): Promise<void>
  /** Resolves when nothing runs. */
  idle(): Promise<void>
}

/** Full for so long: rings could not be answered anyway, so spare the enqueueing transactions the NOTIFY. */
const FULL_BEFORE_SILENT_MS = 100
/** So long a claim waits for more slots to come free, when it found a backlog. */
const GATHER_MS = 2
const MIN_RECHECK_MS = 5
/** Nothing came for so long: time to see to what is due later. */
const QUIET_MS = 50

export function startConsumer<Item>(options: ConsumerOptions<Item>): Consumer {
  const consumer = new SlotConsumer(options)
  consumer.start()
  return consumer
}

class SlotConsumer<Item> implements Consumer {
  readonly #options: ConsumerOptions<Item>
  readonly #stopping = new AbortController()
  readonly #runs = new Set<Promise<void>>()
  #wake: Deferred = deferred()
  #sleeping = false
  /** The last claim got all it asked for. */
  #backlog = false
  #loop: Promise<void> = Promise.resolve()

  constructor(options: ConsumerOptions<Item>) {
    this.#options = options
    options.member.doorbell.onRing((ring) => {
      if (ring.kind === 'missed' || options.work.concerns(ring)) this.#wake.resolve()
    })
    options.member.lost.addEventListener('abort', () => this.#halt(), { once: true })
  }

  get running(): number {
    return this.#runs.size
  }

  start(): void {
    this.#loop = this.#consume()
  }

  async stop(): Promise<void> {
    this.#halt()
    await this.#loop
  }

  async idle(): Promise<void> {
    while (this.#runs.size > 0) await Promise.all(this.#runs)
  }

  #halt(): void {
    this.#stopping.abort()
    this.#wake.resolve()
  }

  async #consume(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      try {
        this.#wake = deferred()
        if (this.#free() === 0) await this.#whileFull()
        else if ((await this.#fill()) === 'more') continue
        else if (!this.#sleeping) await this.#fallAsleep()
        else await this.#sleepUntilDue()
      } catch (error) {
        this.#options.emit({ type: 'error', error: toError(error) })
        await delay(jittered(500), this.#stopping.signal)
      }
    }
  }

  #free(): number {
    return this.#options.slots - this.#runs.size
  }

  /** One claim. `more`: it got all it asked for, so there may be more. */
  async #fill(): Promise<'more' | 'drained'> {
    const { work, member } = this.#options
    if (this.#backlog) await this.#gatherSlots()
    const asked = this.#free()
    const items = await work.claim(asked, member.workerId)
    for (const item of items) this.#start(item)
    this.#backlog = items.length >= asked
    return this.#backlog ? 'more' : 'drained'
  }

  /** One claim for several rows costs little more than for one; with a backlog, wait a moment for slots to come free. */
  async #gatherSlots(): Promise<void> {
    for (let ms = 0; ms < GATHER_MS && this.#free() < this.#options.slots / 2; ms += 1) {
      await delay(1, this.#stopping.signal)
    }
  }

  #start(item: Item): void {
    const run = this.#options.work.run(item).finally(() => {
      this.#runs.delete(run)
      this.#wake.resolve()
    })
    this.#runs.add(run)
  }

  async #whileFull(): Promise<void> {
    const { db, member } = this.#options
    if (this.#sleeping) {
      const freed = await Promise.race([
        this.#wake.promise.then(() => true),
        delay(FULL_BEFORE_SILENT_MS).then(() => false),
      ])
      if (freed) return
      this.#sleeping = false
      await setSleeping(db, member.workerId, false)
    }
    await this.#wake.promise
  }

  /**
   * Says that it sleeps, then looks again until every transaction that may not have seen it has ended:
   * what those commit, they commit without a ring.
   */
  async #fallAsleep(): Promise<void> {
    const { db, member, pollIntervalMs } = this.#options
    await setSleeping(db, member.workerId, true)
    this.#sleeping = true
    let barrier: string | null = null
    for (
      let wait = MIN_RECHECK_MS;
      !this.#stopping.signal.aborted;
      wait = Math.min(wait * 2, pollIntervalMs)
    ) {
      const checked: { barrier: string; passed: boolean } = await checkBarrier(db, barrier)
      barrier = checked.barrier
      if (this.#free() === 0 || (await this.#fill()) === 'more') return
      if (checked.passed) break
      await this.#sleep(wait)
      this.#wake = deferred()
    }
    await this.#sleepUntilDue()
  }

  /**
   * Until the next scheduled row falls due, but no longer than the slow poll. Asks for it only when it has been
   * quiet for a moment: what has just been claimed is being worked on, and would have to wait for the answer.
   */
  async #sleepUntilDue(): Promise<void> {
    const { db, member, pollIntervalMs } = this.#options
    if ((await this.#sleep(QUIET_MS)) === 'woken') return
    const dueMs = await nextRunMs(db, member.workerId)
    // What fell due between the last claim and that question was too early for the one and too late for the other.
    if ((await this.#fill()) === 'more') return
    await this.#sleep(Math.min(jittered(pollIntervalMs), dueMs ?? Infinity))
  }

  /** Until a ring, a freed slot or stop (`woken`), or for `ms`. */
  async #sleep(ms: number): Promise<'woken' | 'slept'> {
    // A stop rings once, and that ring may have been taken for another.
    if (this.#stopping.signal.aborted) return 'woken'
    const over = new AbortController()
    const end = await Promise.race([
      this.#wake.promise.then(() => 'woken' as const),
      delay(Math.max(ms, 0), over.signal).then(() => 'slept' as const),
    ])
    over.abort()
    return end
  }
}
