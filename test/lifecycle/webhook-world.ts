/** A real Durable Streams server with subscriptions, and real HTTP endpoints for its webhooks; all of it ends with the test. */
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { rm } from 'node:fs/promises'
import { DurableStreamTestServer } from '@durable-streams/server'
import { onTestFinished } from 'vitest'
import { makeTempDir } from '../support/stack.js'
import { EventLog } from '../support/poll-until.js'

export interface Delivery {
  headers: Record<string, string>
  body: string
  wake: { wake_id: string; generation: number; callback_url: string; callback_token: string }
  status?: number
}

/** A server that can go away and come back at its address: its streams stay, its subscriptions do not. */
export async function startStreamServer() {
  const dataDir = await makeTempDir('subscriptions')
  const port = await freePort()
  const options = { port, dataDir, webhooks: true, longPollTimeout: 300 }
  let server = new DurableStreamTestServer(options)
  const url = await server.start()
  onTestFinished(async () => {
    await stopNow(server)
    await rm(dataDir, { recursive: true, force: true })
  })
  return {
    url,
    stop: () => stopNow(server),
    async start() {
      server = new DurableStreamTestServer(options)
      await server.start()
    },
    create: (path: string) => must(() => fetch(`${url}/v1/stream/${path}`, json('PUT'))),
    append: (path: string, item: unknown) =>
      must(() => fetch(`${url}/v1/stream/${path}`, json('POST', item))),
    /** What stands behind `from`, and the offset behind it. */
    async read<T = unknown>(path: string, from: string): Promise<{ items: T[]; offset: string }> {
      const response = await must(() => fetch(`${url}/v1/stream/${path}?offset=${from}`))
      const items = (await response.json()) as T[]
      return { items, offset: response.headers.get('Stream-Next-Offset')! }
    },
    async tail(path: string): Promise<string> {
      const response = await must(() => fetch(`${url}/v1/stream/${path}`, { method: 'HEAD' }))
      return response.headers.get('Stream-Next-Offset')!
    },
  }
}

/** Its stop() waits for every connection, which clients keep open; the HTTP server is a private field. */
async function stopNow(server: DurableStreamTestServer): Promise<void> {
  const { server: http } = server as unknown as { server?: Server | null }
  const stopped = server.stop()
  setImmediate(() => http?.closeAllConnections())
  await stopped
}

export type StreamServer = Awaited<ReturnType<typeof startStreamServer>>

/** An HTTP endpoint over a function from Request to Response; it notes what was delivered and what it answered. */
export async function startEndpoint(handle: (request: Request) => Promise<Response>) {
  const deliveries = new EventLog<Delivery>()
  const server = createServer((incoming, outgoing) => {
    void (async () => {
      const body = await readAll(incoming)
      const headers = incoming.headers as Record<string, string>
      const delivery: Delivery = { headers, body, wake: JSON.parse(body) as Delivery['wake'] }
      deliveries.push(delivery)
      const answer = await handle(toRequest(url, headers, body))
      delivery.status = answer.status
      outgoing.writeHead(answer.status, { 'content-type': 'application/json' })
      outgoing.end(await answer.text())
    })()
  })
  const url = await listen(server)
  return { url, deliveries }
}

/** As it came, once more. */
export const toRequest = (url: string, headers: Record<string, string>, body: string) => {
  const kept = Object.entries(headers).filter(([name]) =>
    /^(webhook-signature|content-type)$/.test(name),
  )
  return new Request(url, { method: 'POST', headers: Object.fromEntries(kept), body })
}

export async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

export async function readAll(incoming: IncomingMessage): Promise<string> {
  let text = ''
  for await (const part of incoming) text += String(part)
  return text
}

async function freePort(): Promise<number> {
  const probe = createServer()
  await new Promise<void>((resolve) => probe.listen(0, '127.0.0.1', resolve))
  const { port } = probe.address() as AddressInfo
  await new Promise((resolve) => probe.close(resolve))
  return port
}

const json = (method: string, body?: unknown): RequestInit => ({
  method,
  headers: { 'content-type': 'application/json' },
  ...(body === undefined ? {} : { body: JSON.stringify(body) }),
})

/** Once more when the connection was one that a restarted server left. */
async function must(ask: () => Promise<Response>): Promise<Response> {
  const response = await ask().catch(ask)
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
  return response
}
