/**
 * The wakes this process holds. A wake is held once: a second delivery of it is refused while the first is at work.
 * One that turns out to be over is let go on both sides, so that the runner is free for the wake that follows.
 */
import type { DurableLifecycle, LifecycleState, RunnerWake } from '../contract/lifecycle.js'
import { AiDbError, FencedError, toError } from '../errors.js'
import { WakeAcks } from './wake-acks.js'
import { callbackBody, type PostCallback, type WakeNews } from './webhook-callback.js'
import type { DurableStreamsWake } from './webhook-wake.js'

type State = LifecycleState<DurableStreamsWake>

export interface HeldWake {
  readonly wake: DurableStreamsWake
  readonly fenceToken: string
  /** The same wake as the durable lifecycle knows it. */
  readonly durable: LifecycleState<RunnerWake>
  readonly acks: WakeAcks
  /** The last checkpoint of each source in this session. */
  readonly recorded: Map<string, string>
  readonly claimedAt: number
  token: string
}

interface Server {
  post: PostCallback
  onSubscriptionLost?: ((subscriptionId: string) => void) | undefined
}

export class HeldWakes {
  readonly #lifecycle: DurableLifecycle<RunnerWake> | undefined
  readonly #server: Server
  readonly #held = new Map<string, HeldWake | 'claiming'>()

  constructor(lifecycle: DurableLifecycle<RunnerWake> | undefined, server: Server) {
    this.#lifecycle = lifecycle
    this.#server = server
  }

  async claim(wake: DurableStreamsWake, signal: AbortSignal): Promise<{ fenceToken: string }> {
    const key = keyOf(wake)
    if (this.#held.has(key)) throw rejected(wake, 'is at work in this process already')
    this.#held.set(key, 'claiming')
    try {
      const held = await this.#take(wake, signal)
      this.#held.set(key, held)
      return { fenceToken: held.fenceToken }
    } catch (thrown) {
      this.#held.delete(key)
      throw thrown
    }
  }

  async #take(wake: DurableStreamsWake, signal: AbortSignal): Promise<HeldWake> {
    const inner: RunnerWake = { runnerId: wake.subscriptionId, wakeId: wake.wakeId }
    const claim = await this.#lifecycle?.claimWake(inner, { signal })
    const held: HeldWake = {
      wake,
      fenceToken: [wake.generation, claim?.fenceToken].filter((it) => it !== undefined).join('.'),
      durable: { wake: inner, ...claim },
      acks: new WakeAcks(wake.streams),
      recorded: new Map(),
      claimedAt: performance.now(),
      token: wake.callbackToken,
    }
    try {
      await this.tell(held, {})
      return held
    } catch (thrown) {
      const error = toError(thrown)
      await this.#lifecycle?.fail?.(held.durable, error).catch(() => undefined)
      throw isFenced(error) ? rejected(wake, 'is over by what the server says') : error
    }
  }

  /** @throws FencedError when it is not held (any longer), or turns out not to be. */
  async use(state: State, work: (held: HeldWake) => Promise<void>): Promise<void> {
    const held = this.#heldBy(state)
    try {
      await work(held)
    } catch (thrown) {
      if (isFenced(thrown)) {
        this.forget(held)
        await this.#lifecycle?.fail?.(held.durable, toError(thrown)).catch(() => undefined)
      }
      throw thrown
    }
  }

  /** The work failed. A delivered wake has no way back but its lease. */
  async giveBack(state: State, error: Error): Promise<void> {
    const held = this.#heldBy(state)
    this.forget(held)
    await this.#lifecycle?.fail?.(held.durable, error)
    const { wake } = held
    if (wake.releaseUrl === undefined) return
    const back = { ...wake, callbackUrl: wake.releaseUrl }
    await this.#server.post(back, callbackBody(wake, {}), held.token)
  }

  /** Tells the server. A recheck has none. */
  async tell(held: HeldWake, news: WakeNews): Promise<void> {
    const { wake } = held
    if (wake.callbackUrl === null) return
    try {
      const answer = await this.#server.post(wake, callbackBody(wake, news), held.token)
      if (answer?.token !== undefined) held.token = answer.token
    } catch (thrown) {
      if (isFenced(thrown)) this.#server.onSubscriptionLost?.(wake.subscriptionId)
      throw thrown
    }
  }

  forget({ wake }: HeldWake): void {
    this.#held.delete(keyOf(wake))
  }

  #heldBy({ wake, fenceToken }: State): HeldWake {
    const held = this.#held.get(keyOf(wake))
    if (held && held !== 'claiming' && held.fenceToken === fenceToken) return held
    throw new FencedError(`Wake ${wake.wakeId}`, wake.generation)
  }
}

const keyOf = ({ subscriptionId, wakeId }: DurableStreamsWake) =>
  JSON.stringify([subscriptionId, wakeId])

const isFenced = (thrown: unknown) => thrown instanceof AiDbError && thrown.code === 'FENCED'

const rejected = (wake: DurableStreamsWake, why: string) =>
  new AiDbError(
    'WAKE_REJECTED',
    `Wake ${wake.wakeId} of subscription ${wake.subscriptionId} ${why}. Drop it: nothing was run.`,
  )
