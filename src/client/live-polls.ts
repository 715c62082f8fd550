/**
 * One long poll for all shapes of a page.
 *
 * Over HTTP/1.1 a browser has six connections to an origin, for all its tabs. Six collections that each hold
 * one leave none for a send; so the collections' live requests are gathered here into one request to the
 * handler, which answers when the first of them has something. docs/decisions/0008-outbox.md counts.
 *
 * A request that is cut off to let another shape join loses nothing: a shape asks again with the offset it has.
 */
import { paths, type LivePollsAnswer, type LivePollsBody } from '../contract/requests.js'

export type LivePoll = LivePollsBody['polls'][number]

interface Waiting {
  poll: LivePoll
  resolve(response: Response): void
  reject(error: unknown): void
}

/** A shape that was answered asks again within a moment: the others' wait goes on with it. */
const GATHER_MS = 20

export class LivePolls {
  readonly #url: string
  readonly #fetch: typeof fetch
  readonly #waiting = new Set<Waiting>()
  #request: AbortController | undefined
  #gathering: ReturnType<typeof setTimeout> | undefined
  /** Shapes that were just answered and have not asked again. */
  #expected = 0

  /** @param url Absolute, of the handler. */
  constructor(url: string, request: typeof fetch) {
    this.#url = url + paths.live()
    this.#fetch = request
  }

  /** The answer to a live request, as its own URL would give it. */
  poll(poll: LivePoll, signal: AbortSignal | undefined): Promise<Response> {
    return new Promise<Response>((resolve, reject) => {
      const leave = () => {
        this.#waiting.delete(entry)
        if (this.#waiting.size === 0) this.#rest()
        reject(signal?.reason as Error)
      }
      const settled = () => signal?.removeEventListener('abort', leave)
      const entry: Waiting = {
        poll,
        resolve: (response) => (settled(), resolve(response)),
        reject: (error) => (settled(), reject(error as Error)),
      }
      if (signal?.aborted) return reject(signal.reason as Error)
      signal?.addEventListener('abort', leave)
      this.#waiting.add(entry)
      this.#expected = Math.max(0, this.#expected - 1)
      this.#gather()
    })
  }

  /** Asks again now: the connection that is waited on may be dead. */
  refresh(): void {
    if (this.#waiting.size > 0) this.#gather()
  }

  #gather(): void {
    this.#request?.abort()
    this.#request = undefined
    clearTimeout(this.#gathering)
    this.#gathering = setTimeout(() => void this.#ask(), this.#expected > 0 ? GATHER_MS : 1)
  }

  /** Nobody waits any more. */
  #rest(): void {
    clearTimeout(this.#gathering)
    this.#gathering = undefined
    this.#expected = 0
    this.#request?.abort()
    this.#request = undefined
  }

  async #ask(): Promise<void> {
    this.#expected = 0
    const asked = [...this.#waiting]
    const request = new AbortController()
    this.#request = request
    const body: LivePollsBody = { polls: asked.map(({ poll }) => poll) }
    try {
      const response = await this.#fetch(this.#url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
        signal: request.signal,
      })
      const text = await response.text()
      if (request.signal.aborted) return
      this.#request = undefined
      if (response.ok) this.#answer(asked, JSON.parse(text) as LivePollsAnswer)
      else {
        // A refusal is the first one's: the others have not been looked at.
        const refused = REFUSALS.has(response.status) ? asked.slice(0, 1) : asked
        this.#settle(refused, (one) => one.resolve(new Response(text, response)))
      }
    } catch (error) {
      if (request.signal.aborted) return
      this.#request = undefined
      this.#settle(asked, (one) => one.reject(error))
    }
  }

  #answer(asked: readonly Waiting[], { answers }: LivePollsAnswer): void {
    const there = answers.filter(({ index }) => this.#waiting.has(asked[index]!))
    this.#expected = there.length
    for (const { index, status, headers, body } of there) {
      const one = asked[index]!
      this.#waiting.delete(one)
      one.resolve(new Response(NO_BODY.has(status) ? null : body, { status, headers }))
    }
    if (this.#waiting.size > 0) this.#gather()
  }

  #settle(asked: readonly Waiting[], settle: (one: Waiting) => void): void {
    for (const one of asked) {
      if (this.#waiting.delete(one)) settle(one)
    }
    if (this.#waiting.size > 0) this.#gather()
  }
}

const NO_BODY: ReadonlySet<number> = new Set([204, 304])

const REFUSALS: ReadonlySet<number> = new Set([401, 403, 404])

export interface HeldPolls {
  polls: LivePolls
  /** The last to let go forgets them. */
  release(): void
}

interface Shared {
  fetch: unknown
  headers: unknown
  polls: LivePolls
  holders: number
}

const ofPage = new Map<string, Shared[]>()

/**
 * The page's poll for this handler, shared by its sessions; of its own where they ask with other headers or
 * another `fetch`, because the answer may be another, too.
 */
export function holdLivePolls(
  url: string,
  { fetch: own, headers }: { fetch?: unknown; headers?: unknown },
  request: typeof fetch,
): HeldPolls {
  const all = ofPage.get(url) ?? []
  ofPage.set(url, all)
  let shared = all.find((one) => one.fetch === own && one.headers === headers)
  if (!shared) {
    shared = { fetch: own, headers, polls: new LivePolls(url, request), holders: 0 }
    all.push(shared)
  }
  shared.holders += 1
  const held = shared
  const release = () => {
    held.holders -= 1
    if (held.holders === 0) all.splice(all.indexOf(held), 1)
    if (all.length === 0) ofPage.delete(url)
  }
  return { polls: held.polls, release }
}

/** `fetch` for one shape: live requests go with the page's poll, the others on their own. */
export function makeShapeFetch(
  request: typeof fetch,
  polls: LivePolls,
  shape: Omit<LivePoll, 'query'>,
): typeof fetch {
  return (input, init) => {
    const { searchParams } = new URL(input instanceof Request ? input.url : input)
    const isLongPoll = searchParams.get('live') === 'true' && !searchParams.has('live_sse')
    if (!isLongPoll) return request(input, init)
    const query = searchParams.toString()
    return polls.poll({ ...shape, query }, init?.signal ?? undefined)
  }
}
