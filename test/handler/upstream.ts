/** A service behind the handler that the test plays itself: to see what is asked of it, and to answer as none would. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { EventLog } from '../support/poll-until.js'
import { listen } from './handler-world.js'

export interface Upstream {
  url: string
  /** What was asked, and when whoever asked went away before the answer's end. */
  log: EventLog<Asked | Gone>
  /** Set by the test. @default 200 `[]` */
  answer: (response: ServerResponse, asked: Asked) => void
}

export interface Asked {
  type: 'asked'
  method: string
  url: URL
  headers: IncomingMessage['headers']
  body: string
}

export interface Gone {
  type: 'gone'
  path: string
}

/** Call it in `beforeAll`; it closes with the file. */
export async function createUpstream(): Promise<Upstream> {
  const log = new EventLog<Asked | Gone>()
  const upstream: Upstream = { url: '', log, answer: answerNothing }
  const server = createServer((request, response) => {
    void hear(request).then((asked) => {
      response.on('close', () => {
        if (!response.writableFinished) log.push({ type: 'gone', path: asked.url.pathname })
      })
      log.push(asked)
      upstream.answer(response, asked)
    })
  })
  upstream.url = await listen(server)
  return upstream
}

export function answerNothing(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end('[]')
}

async function hear(request: IncomingMessage): Promise<Asked> {
  const { method = '', headers } = request
  let body = ''
  for await (const part of request) body += String(part)
  return { type: 'asked', method, url: new URL(request.url!, 'http://upstream'), headers, body }
}
