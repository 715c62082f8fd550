/**
 * The requests a writer makes of the stream server, and the one seam where its answers get a meaning.
 *
 * Facts of the protocol this rests on (server 0.3.7, `test/streams/server-facts.test.ts`):
 * - A producer the stream does not know may begin at any epoch, but only at seq 0 (else 409 with the
 *   expected seq); a higher epoch begins at seq 0 again (else 400); a lower one is 403 with the epoch.
 * - PUT takes a body, but no producer: it fences nobody, and an existing stream ignores the body (200).
 * - POST may append and close in one request; its repetition answers 204.
 */
export interface StreamTarget {
  url: string
  producerId: string
  epoch: number
  ttlSeconds: number
  headers: Readonly<Record<string, string>>
  fetch: typeof fetch
}

export type StreamAnswer =
  /** `next`: where the stream goes on behind it, if told. `repeated`: an append it took before. */
  | { kind: 'landed'; next?: string; repeated?: true }
  /** PUT found the stream there: its body was not taken. */
  | { kind: 'exists' }
  | { kind: 'missing' }
  /** Another epoch writes, or the stream is closed. */
  | { kind: 'fenced' }
  /** The server's memory of this producer is not ours: it lost what we wrote. */
  | { kind: 'out-of-step'; expectedSeq: number }
  | { kind: 'unreachable'; reason: string }
  | { kind: 'refused'; reason: string }

/** A request the server has not answered by then is repeated; the producer's seq makes that safe. */
const ANSWER_WITHIN_MS = 5_000

export function createStream(
  target: StreamTarget,
  items: readonly unknown[],
  signal: AbortSignal,
): Promise<StreamAnswer> {
  const headers = { 'Stream-TTL': String(target.ttlSeconds) }
  const body = items.length === 0 ? undefined : JSON.stringify(items)
  return request(target, 'PUT', headers, body, signal)
}

export function appendToStream(
  target: StreamTarget,
  batch: { seq: number; body: string; close: boolean },
  signal: AbortSignal,
): Promise<StreamAnswer> {
  const headers = {
    'Producer-Id': target.producerId,
    'Producer-Epoch': String(target.epoch),
    'Producer-Seq': String(batch.seq),
    ...(batch.close ? { 'Stream-Closed': 'true' } : {}),
  }
  return request(target, 'POST', headers, batch.body, signal)
}

async function request(
  target: StreamTarget,
  method: 'PUT' | 'POST',
  headers: Record<string, string>,
  body: string | undefined,
  signal: AbortSignal,
): Promise<StreamAnswer> {
  const patience = new AbortController()
  const giveUp = () => patience.abort()
  const timer = setTimeout(giveUp, ANSWER_WITHIN_MS)
  signal.addEventListener('abort', giveUp)
  try {
    const response = await target.fetch(target.url, {
      method,
      headers: { ...target.headers, 'content-type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body }),
      signal: patience.signal,
    })
    // Read to the end, or the connection is not used again.
    const text = await response.text()
    return method === 'PUT'
      ? meaningOfPut(response, text)
      : meaningOfPost(response, text, Number(headers['Producer-Seq']))
  } catch (error) {
    return { kind: 'unreachable', reason: String(error) }
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', giveUp)
  }
}

function meaningOfPut(response: Response, text: string): StreamAnswer {
  if (response.status === 201) return landed(response)
  // 409: there, but closed or with another TTL; what that means for an append, the append will tell.
  if (response.ok || response.status === 409) return { kind: 'exists' }
  return failure(response, text)
}

function meaningOfPost(response: Response, text: string, seq: number): StreamAnswer {
  const { status, headers } = response
  // Taken for a repetition though more was accepted since: this epoch had another writer before us.
  const accepted = Number(headers.get('Producer-Seq') ?? seq)
  if (response.ok && accepted > seq) return { kind: 'out-of-step', expectedSeq: accepted + 1 }
  if (response.ok) return landed(response)
  if (status === 404 || status === 410) return { kind: 'missing' }
  // Without the header it is somebody else's 403, a proxy's or an authorizer's: no proof of a fence.
  if (status === 403 && headers.has('Producer-Epoch')) return { kind: 'fenced' }
  if (status === 409 && headers.get('Stream-Closed') === 'true') return { kind: 'fenced' }
  const expected = headers.get('Producer-Expected-Seq')
  if (status === 409 && expected !== null) {
    return { kind: 'out-of-step', expectedSeq: Number(expected) }
  }
  if (status === 400 && /epoch/i.test(text)) return { kind: 'out-of-step', expectedSeq: 0 }
  return failure(response, text)
}

function landed({ headers, status }: Response): StreamAnswer {
  const next = headers.get('Stream-Next-Offset')
  return {
    kind: 'landed',
    ...(next === null ? {} : { next }),
    ...(status === 204 ? { repeated: true } : {}),
  }
}

function failure({ status }: Response, text: string): StreamAnswer {
  const reason = `${status} ${text.slice(0, 200)}`
  const passing = status >= 500 || status === 429 || status === 408
  return { kind: passing ? 'unreachable' : 'refused', reason }
}
