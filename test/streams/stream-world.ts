/** A stream server, writers and watching readers for one test; all of it ends with the test. */
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { DurableStreamTestServer } from '@durable-streams/server'
import { onTestFinished } from 'vitest'
import { readTranscript, type ReadTranscriptOptions } from '../../src/streams/reader.js'
import type { TranscriptUpdate } from '../../src/streams/transcript-view.js'
import {
  applyItem,
  emptyTranscript,
  transcriptText,
  transcriptToItems,
  type Transcript,
  type TranscriptItem,
} from '../../src/streams/transcript.js'
import { createStreamWriter, type StreamWriterOptions } from '../../src/streams/writer.js'

export const GENERATION = 'gen/1 ü'
export const PATH = '/v1/stream/ai_db/generations/gen%2F1%20%C3%BC'

export const text = (delta: string, step = 0): TranscriptItem => ({ type: 'text', step, delta })
export const attempt = (number: number, step = 0, keep = 0): TranscriptItem => ({
  type: 'attempt',
  attempt: number,
  step,
  keep,
})
export const done = { type: 'done', status: 'completed' } as const

async function freePort(): Promise<number> {
  const probe = createServer()
  await new Promise<void>((resolve) => probe.listen(0, '127.0.0.1', resolve))
  const { port } = probe.address() as AddressInfo
  await new Promise((resolve) => probe.close(resolve))
  return port
}

/** A server that can go away and come back at its address, with its data or without. */
export async function startStreams() {
  const port = await freePort()
  let server = new DurableStreamTestServer({ port })
  const url = await server.start()
  onTestFinished(() => server.stop())
  return {
    url,
    get server() {
      return server
    },
    get items(): TranscriptItem[] {
      const { store } = server
      const bytes = store.formatResponse(PATH, store.read(PATH).messages as never)
      return JSON.parse(new TextDecoder().decode(bytes)) as TranscriptItem[]
    },
    stop: () => server.stop(),
    start: () => server.start(),
    async loseData() {
      await server.stop()
      server = new DurableStreamTestServer({ port })
      await server.start()
    },
  }
}

export interface Run {
  append(...items: TranscriptItem[]): void
  transcript: Transcript
  writer: ReturnType<typeof createStreamWriter>
  errors: Error[]
}

/** A worker's end: a writer, and the fold it can be restored from. */
export function startRun(
  streamsUrl: string,
  number: number,
  options: Partial<StreamWriterOptions> = {},
  from: Transcript = emptyTranscript,
): Run {
  const errors: Error[] = []
  const writer = createStreamWriter({
    streamsUrl,
    generationId: GENERATION,
    attempt: number,
    lingerMs: 1,
    minGapMs: 1,
    restore: () => transcriptToItems(run.transcript),
    onError: (error) => errors.push(error),
    ...options,
  })
  const run: Run = {
    writer,
    errors,
    transcript: from,
    append(...items) {
      for (const item of items) {
        run.transcript = applyItem(run.transcript, item)
        writer.append(item)
      }
    },
  }
  onTestFinished(() => writer.abort())
  return run
}

/** A reader in the background, which checks that the updates add up to the text. */
export function watch(streamsUrl: string, options: Partial<ReadTranscriptOptions> = {}) {
  const stop = new AbortController()
  const updates: TranscriptUpdate[] = []
  const waiting = new Set<() => void>()
  let seen = ''
  async function read() {
    const reader = readTranscript({
      streamsUrl,
      generationId: GENERATION,
      signal: stop.signal,
      ...options,
    })
    for await (const update of reader) {
      seen = update.rewritten ? transcriptText(update.transcript) : seen + update.appended
      if (seen !== transcriptText(update.transcript)) throw new Error(`The viewer has ${seen}`)
      updates.push(update)
      for (const check of waiting) check()
    }
    return seen
  }
  const ended = read()
  onTestFinished(async () => {
    stop.abort()
    await ended
  })
  return {
    ended,
    updates,
    stop: () => stop.abort(),
    get text() {
      return seen
    },
    get last() {
      return updates.at(-1)?.transcript
    },
    /** Resolves when the viewer sees this text. */
    sees(wanted: string): Promise<void> {
      return new Promise((resolve) => {
        const check = () => {
          if (seen !== wanted) return
          waiting.delete(check)
          resolve()
        }
        waiting.add(check)
        check()
      })
    },
  }
}
