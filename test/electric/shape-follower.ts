/**
 * A client of a shape that keeps its rows by key, through the unmodified ShapeStream, and objects to a
 * log that does not fit them: an insert of a row it has, an update or delete of one it has not. It can
 * be cut off and go on where it was.
 */
import { isChangeMessage, isControlMessage, ShapeStream } from '@electric-sql/client'
import type { Message, Offset, Row, ShapeStreamOptions } from '@electric-sql/client'
import { onTestFinished } from 'vitest'
import { pollUntil } from '../support/poll-until.js'

type Value = Record<string, unknown>

export interface ShapeFollower {
  readonly rows: ReadonlyMap<string, Value>
  readonly messages: readonly Message<Row>[]
  /** What did not fit, and errors the stream gave up on. */
  readonly objections: readonly string[]
  readonly refetches: number
  readonly isUpToDate: boolean
  readonly stream: ShapeStream
  /** Hangs up. */
  cut(): void
  /** Goes on: from where it was, or from the beginning. */
  resume(how?: 'on' | 'anew'): void
  /** Resolves when it has heard that it knows all there is. */
  upToDate(): Promise<void>
}

export type FollowOptions = Omit<ShapeStreamOptions, 'url' | 'signal' | 'onError'>

export function followShape(electricUrl: string, options: FollowOptions): ShapeFollower {
  const rows = new Map<string, Value>()
  const messages: Message<Row>[] = []
  const objections: string[] = []
  let refetches = 0
  let place: { offset: Offset; handle: string } | undefined
  let controller = new AbortController()
  let stream!: ShapeStream
  let isUpToDate = false

  const take = (message: Message<Row>) => {
    messages.push(message)
    if (isControlMessage(message)) {
      if (message.headers.control === 'up-to-date') isUpToDate = true
      if (message.headers.control !== 'must-refetch') return
      refetches += 1
      rows.clear()
      return
    }
    if (!isChangeMessage(message)) return
    const { key, value, headers } = message
    const known = rows.get(key)
    if ((headers.operation === 'insert') === (known !== undefined)) {
      objections.push(`${headers.operation} of ${key}, which it ${known ? 'has' : 'has not'}`)
    }
    if (headers.operation === 'delete') rows.delete(key)
    else rows.set(key, { ...known, ...value })
  }
  const start = () => {
    const mine = new AbortController()
    controller = mine
    isUpToDate = false
    stream = new ShapeStream({
      url: `${electricUrl}/v1/shape`,
      ...options,
      ...place,
      signal: mine.signal,
      onError: (error) => void objections.push(String(error)),
    })
    const own = stream
    own.subscribe((batch) => {
      if (mine.signal.aborted) return
      for (const message of batch) take(message)
      place = { offset: own.lastOffset, handle: own.shapeHandle! }
    })
  }
  start()
  onTestFinished(() => controller.abort())
  return {
    rows,
    messages,
    objections,
    get refetches() {
      return refetches
    },
    get isUpToDate() {
      return isUpToDate
    },
    get stream() {
      return stream
    },
    cut: () => controller.abort(),
    resume(how = 'on') {
      controller.abort()
      if (how === 'anew') {
        place = undefined
        rows.clear()
      }
      start()
    },
    async upToDate() {
      await pollUntil('the follower is up to date', () => isUpToDate)
    },
  }
}
