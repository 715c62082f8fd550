/**
 * One conversation in a browser tab: its rows, live, and what people do to it.
 *
 *     const session = openSession({ url: '/ai', sessionId })
 *     session.send('Why is the sky blue?')
 *
 * Every tab, device and reload that opens the session is an equal subscriber of the same rows. No
 * framework in it: the collections are TanStack DB's, the rest are external stores.
 *
 * What it does not promise: that a write is sent while no tab is open; and order between the
 * writes of two tabs.
 */
import { AiDbError } from '../errors.js'
import { refuseUnknownOptions, requireWord } from '../internal/options.js'
import { absoluteUrl } from '../electric/collections.js'
import { Connection, type ConnectionState } from './connection.js'
import type { ExternalStore } from './external-store.js'
import { createWrites } from './create-writes.js'
import { makeHandlerFetch, type HeadersOption } from './handler-requests.js'
import { holdLivePolls, type HeldPolls } from './live-polls.js'
import { LiveTexts, type LiveText } from './live-texts.js'
import { refusedAction, type OptimisticWrites, type SessionAction } from './optimistic-writes.js'
import { closedError } from './outbox.js'
import type { OutboxStorage } from './outbox-shelf.js'
import { createSessionCollections, type SessionCollections } from './session-collections.js'
import { requestOf, SessionWriteShower, type SessionWrite } from './session-writes.js'

export interface SessionOptions {
  /** Where the handler is mounted; relative to the page, or absolute. */
  url: string | URL
  sessionId: string
  /** The agent messages are for. @default 'assistant' */
  agent?: string
  /** Who optimistic rows say they are by; the server says who it really is. @default 'me' */
  actorId?: string
  /** Sent with every request; a function is asked each time. */
  headers?: HeadersOption
  /** @default the global one */
  fetch?: typeof fetch
  /** Server-sent events hold a connection for each shape: only over HTTP/2. @default 'long-poll' */
  live?: 'long-poll' | 'sse'
  /** Where unsent writes survive a reload; null: nowhere. @default localStorage, if there is one */
  storage?: OutboxStorage | null
}

export interface ChatSession extends AsyncDisposable {
  readonly sessionId: string
  readonly collections: SessionCollections
  /** Every collection has its rows (`chunks` aside, which begins with its first reader). Rejects when closed before. */
  readonly ready: Promise<void>
  send(content: string, options?: SendOptions): SessionAction
  /** Says something else instead: the message and all that followed it are superseded. */
  edit(messageId: string, content: string): SessionAction
  cancel(generationId: string): SessionAction
  /** Answers anew what a settled generation answered. */
  retry(generationId: string): SessionAction
  approve(toolCallId: string, options?: VoteOptions): SessionAction
  deny(toolCallId: string, options?: VoteOptions): SessionAction
  /** A generation's text while it is written; the same object for the same id. Reads while subscribed. */
  text(generationId: string): LiveText
  readonly connection: ExternalStore<ConnectionState>
  /** Tries again now whatever waits to be tried again: after a login, say. */
  refresh(): void
  /** Stops everything; nothing is left running. */
  close(): Promise<void>
}

export interface SendOptions {
  /** @default a random UUID */
  id?: string
  /** @default the session's */
  agent?: string
  metadata?: Record<string, unknown>
}

export interface VoteOptions {
  reason?: string
}

const KNOWN = ['url', 'sessionId', 'agent', 'actorId', 'headers', 'fetch', 'live', 'storage']

export function openSession(options: SessionOptions): ChatSession {
  refuseUnknownOptions('openSession', options, KNOWN)
  const { sessionId, live = 'long-poll' } = options
  requireWord('openSession', 'live', live, ['long-poll', 'sse'])
  if (typeof sessionId !== 'string' || sessionId === '') {
    throw new AiDbError(
      'INVALID_OPTION',
      'openSession: sessionId is missing. Pass the id of a session.',
      {
        field: 'sessionId',
      },
    )
  }
  return new OpenSession({ ...options, live, url: absoluteUrl(options.url) })
}

class OpenSession implements ChatSession {
  readonly sessionId: string
  readonly collections: SessionCollections
  readonly connection: Connection
  readonly ready: Promise<void>
  readonly #agent: string
  readonly #writes: OptimisticWrites<SessionWrite>
  readonly #texts: LiveTexts
  readonly #held: HeldPolls
  #closed: Promise<void> | undefined

  constructor(options: SessionOptions & { url: string; live: 'long-poll' | 'sse' }) {
    const { url, sessionId, live, agent = 'assistant', actorId = 'me', storage } = options
    const request = makeHandlerFetch(options)
    this.sessionId = sessionId
    this.#agent = agent
    this.connection = new Connection(() => {
      // The connection that is waited on may be dead; a tab may have closed and left something to send.
      this.#held.polls.refresh()
      void this.#writes.takeOver()
    })
    this.#held = holdLivePolls(url, options, request)
    const { polls } = this.#held
    const source = { url, sessionId, live, fetch: request, polls }
    this.collections = createSessionCollections(source, this.connection)
    this.#writes = createWrites<SessionWrite>({
      url,
      fetch: request,
      scope: sessionId,
      storage,
      connection: this.connection,
      requestOf: (write) => requestOf(sessionId, write),
      show: new SessionWriteShower(sessionId, actorId, this.collections).show,
    })
    this.#texts = new LiveTexts({
      url,
      sessionId,
      fetch: request,
      collections: this.collections,
      health: this.connection.healthOf('live text'),
    })
    const { chunks: _, ...fromTheStart } = this.collections
    this.ready = Promise.all(Object.values(fromTheStart).map((one) => one.preload())).then(
      () => undefined,
      () => Promise.reject(closedError()),
    )
    this.ready.catch(() => undefined)
    void this.#writes.takeOver()
  }

  send(content: string, options: SendOptions = {}): SessionAction {
    const { id = crypto.randomUUID(), agent = this.#agent, metadata } = options
    return this.#writes.submit({ verb: 'send', id, content, agent, ...(metadata && { metadata }) })
  }

  edit(messageId: string, content: string): SessionAction {
    return this.#writes.submit({ verb: 'edit', id: crypto.randomUUID(), messageId, content })
  }

  cancel(generationId: string): SessionAction {
    return this.#writes.submit({ verb: 'cancel', id: generationId })
  }

  retry(generationId: string): SessionAction {
    return this.#writes.submit({ verb: 'retry', id: crypto.randomUUID(), generationId })
  }

  approve(toolCallId: string, options: VoteOptions = {}): SessionAction {
    return this.#vote('approve', toolCallId, options)
  }

  deny(toolCallId: string, options: VoteOptions = {}): SessionAction {
    return this.#vote('deny', toolCallId, options)
  }

  text(generationId: string): LiveText {
    return this.#texts.of(generationId)
  }

  refresh(): void {
    this.connection.wake()
  }

  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** A vote is bound to the arguments that were seen: without the call's row there is nothing to vote on. */
  #vote(verb: 'approve' | 'deny', toolCallId: string, { reason }: VoteOptions): SessionAction {
    const id = crypto.randomUUID()
    const call = this.collections.toolCalls.get(toolCallId)
    if (!call) {
      const message = `There is no tool call ${toolCallId} here. Wait for ready, and check the id.`
      return refusedAction(id, new AiDbError('NOT_FOUND', message, { field: 'toolCallId' }))
    }
    const { argsHash } = call
    return this.#writes.submit({
      verb,
      id,
      toolCallId,
      argsHash,
      ...(reason !== undefined && { reason }),
    })
  }

  async #close(): Promise<void> {
    this.#texts.close()
    this.#writes.close()
    this.connection.close()
    await Promise.all(Object.values(this.collections).map((one) => one.cleanup()))
    this.#held.release()
  }
}
