/**
 * Which acks of a wake may be sent when. Pure.
 *
 * A server wakes again while something is pending, and never when nothing is. So the ack that would leave nothing
 * pending is kept for the end: work that dies after it would be lost. And an end that acks nothing is answered with
 * the next wake at once, dozens of times a second: such an end is not sent, the lease runs out instead.
 */
import { compareCursors } from '../contract/cursor-order.js'
import type { CheckpointContract } from '../contract/lifecycle.js'
import type { WakeStream } from './webhook-wake.js'

export interface Ack {
  stream: string
  offset: string
}

export class WakeAcks {
  readonly #streams: ReadonlyMap<string, WakeStream>
  readonly #reached = new Map<string, string>()
  readonly #sent = new Map<string, string>()

  constructor(streams: readonly WakeStream[]) {
    this.#streams = new Map(streams.map((stream) => [stream.path, stream]))
  }

  /** Sources that are no streams of the wake need no ack, nor does what the server believes acked already. */
  reach(checkpoints: readonly CheckpointContract[]): void {
    for (const { source, cursor } of checkpoints) {
      const stream = this.#streams.get(source)
      if (stream && compareCursors(cursor, stream.ackedOffset) > 0)
        this.#reached.set(source, cursor)
    }
  }

  /** Did this session get any further? */
  get progressed(): boolean {
    return this.#reached.size > 0
  }

  /** Is everything reached that was there when the wake was made? */
  get exhausted(): boolean {
    return [...this.#streams.values()].every((stream) => this.#isRead(stream, this.#reached))
  }

  /** Streams of which this session recorded nothing, up to their end: what `done` vouches for. */
  untouched(): CheckpointContract[] {
    return [...this.#streams.values()].flatMap(({ path, tailOffset, hasPending }) =>
      hasPending && tailOffset !== null && !this.#reached.has(path)
        ? [{ source: path, cursor: tailOffset }]
        : [],
    )
  }

  /** What is to be sent now. `last`: nothing is kept back. */
  unsent(last: boolean): Ack[] {
    const unsent = [...this.#reached].filter(([path, offset]) => this.#sent.get(path) !== offset)
    const acks = unsent.map(([stream, offset]) => ({ stream, offset }))
    if (last) return acks
    const after = new Map([...this.#sent, ...unsent])
    const streams = [...this.#streams.values()]
    if (!streams.every((stream) => this.#isRead(stream, after))) return acks
    const keep = streams.find((stream) => !this.#isRead(stream, this.#sent))?.path
    return acks.filter(({ stream }) => stream !== keep)
  }

  markSent(acks: readonly Ack[]): void {
    for (const { stream, offset } of acks) this.#sent.set(stream, offset)
  }

  #isRead({ path, tailOffset, hasPending }: WakeStream, reached: ReadonlyMap<string, string>) {
    const offset = reached.get(path)
    if (!hasPending) return true
    return offset !== undefined && (tailOffset === null || compareCursors(offset, tailOffset) >= 0)
  }
}
