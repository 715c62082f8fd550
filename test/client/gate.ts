/** A real HTTP proxy that a test shuts, and that loses answers: what a train does to a phone. */
import { createServer, request as ask, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll } from 'vitest'

export interface Passed {
  method: string
  path: string
}

export interface Gate {
  /** Origin of the gate. */
  url: string
  /** Requests that came through, in order. */
  passed: Passed[]
  /** Requests that are open now. */
  open(): number
  /** Breaks every connection, and each new one. */
  shut(): void
  reopen(): void
  /** The next answers to requests that fit get lost on their way: the server has done it. */
  loseAnswers(fits: (request: Passed) => boolean, times?: number): void
  /** Requests that fit wait here until told. @returns the function that lets them go */
  hold(fits: (request: Passed) => boolean): () => void
  /** Answers requests that fit in the server's place. @returns the function that ends it */
  answer(fits: (request: Passed) => boolean, status: number): () => void
}

/** Call it in `beforeAll`; it closes with the file. */
export async function createGate(target: string): Promise<Gate> {
  let isShut = false
  let losing: { fits: (request: Passed) => boolean; times: number } | undefined
  const holds = new Map<(request: Passed) => boolean, Promise<void>>()
  const answers = new Map<(request: Passed) => boolean, number>()
  const passed: Passed[] = []
  let opened = 0
  const server = createServer((incoming, outgoing) => {
    void (async () => {
      const about = { method: incoming.method ?? '', path: incoming.url ?? '' }
      if (isShut) return void incoming.socket.destroy()
      for (const [fits, until] of holds) if (fits(about)) await until
      if (isShut) return void incoming.socket.destroy()
      passed.push(about)
      opened += 1
      outgoing.on('close', () => (opened -= 1))
      for (const [fits, status] of answers) {
        if (fits(about)) return void outgoing.writeHead(status).end()
      }
      const lost = losing && losing.times > 0 && losing.fits(about)
      if (lost) losing!.times -= 1
      pass(incoming, outgoing, (answer) => {
        if (lost) {
          answer.resume()
          answer.on('end', () => incoming.socket.destroy())
          return
        }
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(outgoing)
        answer.on('error', () => outgoing.destroy())
      })
    })()
  })
  function pass(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    receive: (answer: IncomingMessage) => void,
  ) {
    const { host: _, ...headers } = incoming.headers
    const onward = ask(new URL(incoming.url ?? '/', target), { method: incoming.method, headers })
    onward.on('response', receive)
    onward.on('error', () => incoming.socket.destroy())
    outgoing.on('close', () => onward.destroy())
    incoming.pipe(onward)
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterAll(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    passed,
    open: () => opened,
    shut() {
      isShut = true
      server.closeAllConnections()
    },
    reopen() {
      isShut = false
    },
    loseAnswers(fits, times = 1) {
      losing = { fits, times }
    },
    hold(fits) {
      let release!: () => void
      holds.set(fits, new Promise<void>((resolve) => (release = resolve)))
      return () => {
        holds.delete(fits)
        release()
      }
    },
    answer(fits, status) {
      answers.set(fits, status)
      return () => void answers.delete(fits)
    },
  }
}
