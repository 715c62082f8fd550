/**
 * `fetch` as a browser has it over HTTP/1.1: all tabs share six connections to an origin, and what finds none
 * free waits. Counts what is open.
 */
import { Agent, request as ask } from 'node:http'
import { Readable } from 'node:stream'

export interface LimitedFetch {
  fetch: typeof fetch
  /** Connections that hold a request now, and requests that wait for one. */
  held(): number
  queued(): number
  close(): void
}

export function createLimitedFetch(connections: number): LimitedFetch {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const count = (all: NodeJS.ReadOnlyDict<unknown[]>) =>
    Object.values(all).reduce((sum, some) => sum + (some?.length ?? 0), 0)
  return {
    fetch: (input, init) => limitedFetch(agent, new URL(String(input)), init),
    held: () => count(agent.sockets),
    queued: () => count(agent.requests),
    close: () => agent.destroy(),
  }
}

function limitedFetch(agent: Agent, url: URL, init: RequestInit = {}): Promise<Response> {
  const { method = 'GET', headers, body, signal } = init
  return new Promise((resolve, reject) => {
    const asked = ask(url, {
      agent,
      method,
      headers: Object.fromEntries(new Headers(headers)),
      ...(signal && { signal }),
    })
    asked.on('error', reject)
    asked.on('response', (answer) => {
      const status = answer.statusCode ?? 500
      const empty = status === 204 || status === 304
      const fields = Object.entries(answer.headers).map(([name, value]) => [name, String(value)])
      if (empty) answer.resume()
      const stream = empty ? null : (Readable.toWeb(answer) as ReadableStream)
      resolve(new Response(stream, { status, headers: fields as [string, string][] }))
    })
    asked.end(body as string | undefined)
  })
}
