/**
 * Where live text comes from: the stream behind the handler or, where there is no stream server, the synced
 * chunk rows. Which of the two is learnt from the handler's answer, once a session.
 */
import { paths } from '../contract/requests.js'
import { isSettledGeneration } from '../contract/status.js'
import { jittered } from '../internal/abort.js'
import type { ShapeHealth } from '../electric/lasting-fetch.js'
import { readPackedTranscript } from '../streams/packed-reader.js'
import type { PackedChunk } from '../streams/packed-chunks.js'
import { readTranscriptAt, type TranscriptUpdate } from '../streams/reader.js'
import type { DoneItem } from '../streams/transcript.js'
import type { SessionCollections } from './session-collections.js'
import { makeLookingFetch, takeStreamSlot } from './stream-slots.js'

export interface LiveTextSource {
  /** Absolute, of the handler. */
  url: string
  sessionId: string
  fetch: typeof fetch
  collections: SessionCollections
  health: ShapeHealth
  /** Set when the handler has said that it has no stream server. */
  streamless?: boolean
}

export async function* readLiveText(
  source: LiveTextSource,
  generationId: string,
  signal: AbortSignal,
): AsyncGenerator<TranscriptUpdate, void> {
  if (!source.streamless) yield* readStream(source, generationId, signal)
  if (source.streamless && !signal.aborted) yield* readChunks(source, generationId, signal)
}

async function* readStream(
  source: LiveTextSource,
  generationId: string,
  signal: AbortSignal,
): AsyncGenerator<TranscriptUpdate, void> {
  const stop = new AbortController()
  const abort = () => stop.abort()
  signal.addEventListener('abort', abort)
  const request: typeof fetch = async (input, init) => {
    const response = await source.fetch(input, init)
    if (response.ok) return response
    if (response.status !== 404) {
      // Refused or broken: the reader itself would ask again at once.
      await source.health.pause(jittered(2_000), init?.signal ?? undefined)
    } else if (await saysStreamless(response)) {
      source.streamless = true
      abort()
    }
    return response
  }
  const slot = await takeStreamSlot(source.url)
  try {
    const url = source.url + paths.stream(source.sessionId, generationId)
    const how = slot
      ? { live: 'sse' as const, fetch: request }
      : { live: 'long-poll' as const, fetch: makeLookingFetch(request) }
    yield* readTranscriptAt({ url, ...how, signal: stop.signal })
  } finally {
    slot?.release()
    signal.removeEventListener('abort', abort)
  }
}

/** Not the same as a generation that has no stream yet. */
async function saysStreamless(response: Response): Promise<boolean> {
  try {
    const { code, field } = (await response.clone().json()) as { code?: string; field?: string }
    return code === 'STREAM_FAILED' && field === 'streams'
  } catch {
    return false
  }
}

async function* readChunks(
  { collections }: LiveTextSource,
  generationId: string,
  signal: AbortSignal,
): AsyncGenerator<TranscriptUpdate, void> {
  const { chunks, generations } = collections
  const wakes = new Set<() => void>()
  const onChange = (changes: readonly { value: object }[]) => {
    const concerned = changes.some(({ value }) => {
      const row = value as { id?: string; generationId?: string }
      return row.generationId === generationId || row.id === generationId
    })
    if (concerned) for (const wake of [...wakes]) wake()
  }
  const subscriptions = [chunks.subscribeChanges(onChange), generations.subscribeChanges(onChange)]
  try {
    await chunks.preload().catch(() => undefined)
    yield* readPackedTranscript({
      signal,
      load: (afterIndex) => Promise.resolve(chunksAfter(collections, generationId, afterIndex)),
      wait: (until) => nextWake(wakes, until),
    })
  } finally {
    for (const subscription of subscriptions) subscription.unsubscribe()
  }
}

function nextWake(wakes: Set<() => void>, until: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const wake = () => {
      wakes.delete(wake)
      until.removeEventListener('abort', wake)
      resolve()
    }
    wakes.add(wake)
    until.addEventListener('abort', wake)
    if (until.aborted) wake()
  })
}

function chunksAfter(
  { chunks, generations }: SessionCollections,
  generationId: string,
  afterIndex: number,
): { rows: PackedChunk[]; done?: DoneItem } {
  const rows = [...chunks.values()]
    .filter((row) => row.generationId === generationId && row.index > afterIndex)
    .sort((a, b) => a.index - b.index) as (PackedChunk & object)[]
  const row = generations.get(generationId)
  if (!row || !isSettledGeneration(row.status)) return { rows }
  const status = row.status as DoneItem['status']
  return { rows, done: { type: 'done', status, ...(row.error !== null && { error: row.error }) } }
}
