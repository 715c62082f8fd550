/**
 * `durableStream`: TanStack AI's delivery durability (`StreamDurability`) over Durable Streams.
 *
 * For apps that serve `chat()` themselves: `toServerSentEventsResponse(stream, { durability: { adapter } })`
 * writes each AG-UI chunk to the run's stream before it is delivered, and a GET with Last-Event-ID or
 * `?offset=-1&runId=…` reads on from there, in any process. A session of this library does not need it.
 *
 * Not here: who may read which run. The run's id comes from the request; check it before you pass it on.
 */
import type { StreamChunk, StreamDurability } from '@tanstack/ai'
import { AiDbError } from '../errors.js'
import { refuseUnknownOptions, requireNumber } from '../internal/options.js'
import { followRunLog } from './run-log-reader.js'
import {
  formatOffset,
  parseOffset,
  readRunLog,
  runLogUrl,
  type RunLogAddress,
  type RunLogItem,
} from './run-log.js'
import { RunLogProducer } from './run-log-producer.js'

export interface DurableStreamOptions extends RunLogAddress {
  /** Names the run (`X-Run-Id`, else `?runId`) and where to read on (`Last-Event-ID`, else `?offset`). */
  request?: Request
  /** The run, where no request names it. @default a new one */
  runId?: string
  /**
   * The claim's number, where another process may take the run over: a higher one fences the producer
   * before it. Without it a run has one producer, and a second one is refused. @default 0
   */
  epoch?: number
  /** How long after its last use the server keeps the log, in seconds. @default 86400 */
  ttlSeconds?: number
  /** How long reading from the start waits for a run that has written nothing, in ms. @default 1000 */
  firstChunkMs?: number
  /** How long an unreachable server is asked again, in ms. @default 10000 */
  giveUpMs?: number
  headers?: Readonly<Record<string, string>>
  fetch?: typeof fetch
}

const KNOWN = [
  ...['streamsUrl', 'prefix', 'request', 'runId', 'epoch', 'ttlSeconds'],
  ...['firstChunkMs', 'giveUpMs', 'headers', 'fetch'],
]

export function durableStream(options: DurableStreamOptions): StreamDurability {
  check(options)
  const { giveUpMs = 10_000, firstChunkMs = 1_000 } = options
  const resume = resumeOffset(options.request)
  const runId = runOf(options, resume)
  const target = {
    url: runLogUrl(options, runId),
    producerId: runId,
    epoch: options.epoch ?? 0,
    ttlSeconds: options.ttlSeconds ?? 86_400,
    headers: options.headers ?? {},
    fetch: options.fetch ?? fetch,
  }
  const producer = new RunLogProducer<StreamChunk>(target, giveUpMs)
  const placed = (item: RunLogItem<StreamChunk>) => ({
    offset: formatOffset(runId, item),
    chunk: item.chunk,
  })
  return {
    resumeFrom: () => resume,
    append: async (chunks) =>
      (await producer.append(chunks)).map((place) => formatOffset(runId, place)),
    close: () => producer.close(),
    snapshot: async () => (await readRunLog<StreamChunk>(target)).map(placed),
    async *read(offset, signal) {
      const limits = { firstChunkMs, giveUpMs, ...(signal && { signal }) }
      const items = followRunLog<StreamChunk>(target, runId, offset, limits)
      for await (const item of items) yield placed(item)
    },
  }
}

function check(options: DurableStreamOptions): void {
  refuseUnknownOptions('durableStream', options, KNOWN)
  for (const field of ['epoch', 'ttlSeconds', 'firstChunkMs', 'giveUpMs'] as const) {
    if (options[field] !== undefined) requireNumber('durableStream', field, options[field])
  }
  if (URL.canParse(String(options.streamsUrl))) return
  const fact = `durableStream: streamsUrl is no absolute URL: ${JSON.stringify(options.streamsUrl)}.`
  const cure = 'Give the base URL of the stream server, such as http://localhost:4437.'
  throw new AiDbError('INVALID_OPTION', `${fact} ${cure}`, { field: 'streamsUrl' })
}

function resumeOffset(request: Request | undefined): string | null {
  if (!request) return null
  return request.headers.get('Last-Event-ID') || new URL(request.url).searchParams.get('offset')
}

/** An offset is of one run, whatever else the request says: what a reconnecting client sends is enough. */
function runOf({ request, runId }: DurableStreamOptions, resume: string | null): string {
  const ofOffset = resume === null || isRelative(resume) ? undefined : parseOffset(resume).runId
  const ofRequest =
    request && (request.headers.get('X-Run-Id') || new URL(request.url).searchParams.get('runId'))
  if (runId !== undefined && ofOffset !== undefined && runId !== ofOffset) {
    throw new AiDbError(
      'INVALID_INPUT',
      `The offset is of run ${JSON.stringify(ofOffset)}, not ${JSON.stringify(runId)}. ` +
        'Send the offset of the run that is read.',
      { field: 'offset' },
    )
  }
  const id = ofOffset ?? runId ?? (ofRequest || crypto.randomUUID())
  if (id !== '' && id.length <= 500 && !/[\r\n\0]/.test(id)) return id
  throw new AiDbError(
    'INVALID_INPUT',
    'A run id has 1 to 500 characters and no line breaks. Send another one.',
    { field: 'runId' },
  )
}

function isRelative(offset: string): boolean {
  return offset === '-1' || offset === 'now'
}
