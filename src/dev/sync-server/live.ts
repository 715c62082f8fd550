/**
 * Clients that wait: one answer each by long-poll, or a stream of them by SSE. Each is a listener of
 * its shape that leaves when it is answered, when its client goes away, or after a while.
 */
import type { ServerResponse } from 'node:http'
import {
  CACHE,
  CORS_HEADERS,
  nextCursor,
  pageOf,
  sendJson,
  shapeHeaders,
  upToDate,
} from './answers.js'
import type { ShapeRequest } from './requests.js'
import type { Shape } from './shape.js'

export interface LiveOptions {
  longPollMs: number
  sseMs: number
  /** An SSE client that leaves this much unread is cut off, and comes back where it was. */
  maxUnreadBytes: number
  tail(): bigint
  /** Answers a client whose log is gone. */
  refetch(request: ShapeRequest, response: ServerResponse): void
}

const KEEP_ALIVE_MS = 21_000

export interface Live {
  longPoll(shape: Shape, request: ShapeRequest, lsn: bigint, response: ServerResponse): void
  sse(shape: Shape, request: ShapeRequest, lsn: bigint, response: ServerResponse): void
  /** Answers everybody; who comes after that is answered at once. */
  stop(): void
}

export function createLive(options: LiveOptions): Live {
  return new WaitingClients(options)
}

interface Waiting {
  onNews(): void
  onTime(): void
  ms: number
}

class WaitingClients implements Live {
  readonly #options: LiveOptions
  /** What each waiting client does when its time is up. */
  readonly #finishers = new Set<() => void>()
  #stopped = false

  constructor(options: LiveOptions) {
    this.#options = options
  }

  longPoll(shape: Shape, request: ShapeRequest, lsn: bigint, response: ServerResponse): void {
    const { longPollMs: ms, tail, refetch } = this.#options
    const answer = (evenIfEmpty: boolean) => {
      const entries = shape.ended ? undefined : shape.log.after(lsn)
      if (entries?.length === 0 && !evenIfEmpty) return
      leave()
      if (entries === undefined) return refetch(request, response)
      const page = pageOf(entries)
      const end = page.complete ? [upToDate(tail())] : []
      sendJson(response, 200, `[${[...page.messages, ...end].join(',')}]`, {
        ...shapeHeaders(shape, page.offset ?? request.offsetText),
        ...(page.complete ? { 'electric-up-to-date': '' } : {}),
        'electric-cursor': nextCursor(request.cursor),
        'cache-control': CACHE.live,
      })
    }
    const waiting = { ms, onNews: () => answer(false), onTime: () => answer(true) }
    const leave = this.#wait(shape, response, waiting)
    answer(this.#stopped)
  }

  sse(shape: Shape, request: ShapeRequest, from: bigint, response: ServerResponse): void {
    const { sseMs: ms, maxUnreadBytes, tail } = this.#options
    let lsn = from
    const finish = () => {
      clearInterval(keepAlive)
      leave()
      response.end()
    }
    const send = () => {
      const entries = shape.ended ? undefined : shape.log.after(lsn)
      // The next request finds out by a 409 that it has to start over.
      if (entries === undefined) return finish()
      lsn = entries.at(-1)?.lsn ?? lsn
      const messages = entries.flatMap((entry) => entry.messages)
      const events = [...messages, upToDate(tail())].map((one) => `data: ${one}\n\n`)
      response.write(events.join(''))
      if (response.writableLength > maxUnreadBytes) finish()
    }
    response.writeHead(200, {
      ...CORS_HEADERS,
      ...shapeHeaders(shape, request.offsetText),
      'electric-cursor': nextCursor(request.cursor),
      'content-type': 'text/event-stream',
      'cache-control': CACHE.sse,
    })
    const keepAlive = setInterval(() => response.write(': keep-alive\n\n'), KEEP_ALIVE_MS)
    response.on('close', () => clearInterval(keepAlive))
    const leave = this.#wait(shape, response, { ms, onNews: send, onTime: finish })
    send()
    if (this.#stopped) finish()
  }

  stop(): void {
    this.#stopped = true
    for (const finish of [...this.#finishers]) finish()
  }

  /** Returns the way to stop waiting; a client that hangs up does by itself. */
  #wait(shape: Shape, response: ServerResponse, { onNews, onTime, ms }: Waiting): () => void {
    const leave = () => {
      clearTimeout(timer)
      unsubscribe()
      this.#finishers.delete(onTime)
      response.off('close', leave)
    }
    const timer = setTimeout(onTime, ms)
    const unsubscribe = shape.subscribe(onNews)
    this.#finishers.add(onTime)
    response.on('close', leave)
    return leave
  }
}
