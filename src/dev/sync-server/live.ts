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
  const finishers = new Set<() => void>()
  let stopped = false

  const wait = (
    shape: Shape,
    response: ServerResponse,
    ms: number,
    onNews: () => void,
    onTime: () => void,
  ) => {
    const leave = () => {
      clearTimeout(timer)
      unsubscribe()
      finishers.delete(onTime)
      response.off('close', leave)
    }
    const timer = setTimeout(() => onTime(), ms)
    const unsubscribe = shape.subscribe(onNews)
    finishers.add(onTime)
    response.on('close', leave)
    return leave
  }

  const longPoll: Live['longPoll'] = (shape, request, lsn, response) => {
    let leave = () => {}
    const answer = (evenIfEmpty: boolean) => {
      const entries = shape.ended ? undefined : shape.log.after(lsn)
      if (entries?.length === 0 && !evenIfEmpty) return
      leave()
      if (entries === undefined) return options.refetch(request, response)
      const page = pageOf(entries)
      const end = page.complete ? [upToDate(options.tail())] : []
      sendJson(response, 200, `[${[...page.messages, ...end].join(',')}]`, {
        ...shapeHeaders(shape, page.offset ?? request.offsetText),
        ...(page.complete ? { 'electric-up-to-date': '' } : {}),
        'electric-cursor': nextCursor(request.cursor),
        'cache-control': CACHE.live,
      })
    }
    leave = wait(
      shape,
      response,
      options.longPollMs,
      () => answer(false),
      () => answer(true),
    )
    answer(stopped)
  }

  const sse: Live['sse'] = (shape, request, from, response) => {
    let lsn = from
    let leave = () => {}
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
      const events = [...messages, upToDate(options.tail())].map((one) => `data: ${one}\n\n`)
      response.write(events.join(''))
      if (response.writableLength > options.maxUnreadBytes) finish()
    }
    response.writeHead(200, {
      ...CORS_HEADERS,
      ...shapeHeaders(shape, request.offsetText),
      'electric-cursor': nextCursor(request.cursor),
      'content-type': 'text/event-stream',
      'cache-control': CACHE.sse,
      connection: 'keep-alive',
    })
    const keepAlive = setInterval(() => response.write(': keep-alive\n\n'), KEEP_ALIVE_MS)
    response.on('close', () => clearInterval(keepAlive))
    leave = wait(shape, response, options.sseMs, send, finish)
    send()
    if (stopped) finish()
  }

  return {
    longPoll,
    sse,
    stop() {
      stopped = true
      for (const finish of [...finishers]) finish()
    },
  }
}
