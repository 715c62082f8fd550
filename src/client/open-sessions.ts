/**
 * The list of an actor's sessions: made, renamed and removed here, seen by all of the actor's tabs.
 *
 *     const sessions = openSessions({ url: '/ai' })
 *     await sessions.create({ title: 'Plans' }).isPersisted.promise
 *
 * Its writes have an outbox of their own: open a new session, or send to it, when `create` is persisted.
 */
import type { SessionRecord } from '../contract/records.js'
import { paths, type CreateSessionBody } from '../contract/requests.js'
import { absoluteUrl, sessionsCollectionOptions } from '../electric/collections.js'
import { refuseUnknownOptions, requireWord } from '../internal/options.js'
import { Connection, type ConnectionState } from './connection.js'
import { createWrites } from './create-writes.js'
import type { ExternalStore } from './external-store.js'
import { makeHandlerFetch, type WriteRequest } from './handler-requests.js'
import { holdLivePolls, makeShapeFetch, type HeldPolls } from './live-polls.js'
import type { SessionOptions } from './open-session.js'
import type { OptimisticWrites, SessionAction } from './optimistic-writes.js'
import { closedError, type WrittenBody } from './outbox.js'
import { createRecordCollection, type RecordCollection } from './session-collections.js'

export type SessionsOptions = Pick<
  SessionOptions,
  'url' | 'actorId' | 'headers' | 'fetch' | 'live' | 'storage'
>

export interface SessionList extends AsyncDisposable {
  /** The sessions of the actor. */
  readonly collection: RecordCollection<SessionRecord>
  /** The list is here. Rejects when closed before. */
  readonly ready: Promise<void>
  create(session?: NewListedSession): SessionAction
  rename(sessionId: string, title: string): SessionAction
  remove(sessionId: string): SessionAction
  readonly connection: ExternalStore<ConnectionState>
  /** Tries again now whatever waits to be tried again. */
  refresh(): void
  /** Stops everything; nothing is left running. */
  close(): Promise<void>
}

export interface NewListedSession {
  /** @default a random UUID */
  id?: string
  title?: string
  metadata?: Record<string, unknown>
}

type ListWrite =
  | ({ verb: 'create'; id: string } & NewListedSession)
  | { verb: 'rename'; id: string; title: string }
  | { verb: 'remove'; id: string }

const KNOWN = ['url', 'actorId', 'headers', 'fetch', 'live', 'storage']

export function openSessions(options: SessionsOptions): SessionList {
  refuseUnknownOptions('openSessions', options, KNOWN)
  const { live = 'long-poll' } = options
  requireWord('openSessions', 'live', live, ['long-poll', 'sse'])
  return new OpenSessions({ ...options, live, url: absoluteUrl(options.url) })
}

let opened = 0

class OpenSessions implements SessionList {
  readonly collection: RecordCollection<SessionRecord>
  readonly connection: Connection
  readonly ready: Promise<void>
  readonly #actorId: string
  readonly #writes: OptimisticWrites<ListWrite>
  readonly #held: HeldPolls
  #closed: Promise<void> | undefined

  constructor(options: SessionsOptions & { url: string; live: 'long-poll' | 'sse' }) {
    const { url, live, actorId = 'me', storage } = options
    const request = makeHandlerFetch(options)
    this.connection = new Connection(() => {
      this.#held.polls.refresh()
      void this.#writes.takeOver()
    })
    opened += 1
    this.#actorId = actorId
    this.#held = holdLivePolls(url, options, request)
    this.collection = createRecordCollection(
      sessionsCollectionOptions({
        url,
        live,
        fetch: makeShapeFetch(request, this.#held.polls, { shape: 'sessions' }),
        id: `sessions:${opened}`,
        health: this.connection.healthOf('sessions'),
      }),
    )
    this.#writes = createWrites<ListWrite>({
      url,
      fetch: request,
      scope: 'sessions',
      storage,
      connection: this.connection,
      requestOf,
      show: this.#show,
      echoes,
    })
    this.ready = this.collection.preload().catch(() => Promise.reject(closedError()))
    this.ready.catch(() => undefined)
    void this.#writes.takeOver()
  }

  create(session: NewListedSession = {}): SessionAction {
    return this.#writes.submit({
      verb: 'create',
      ...session,
      id: session.id ?? crypto.randomUUID(),
    })
  }

  rename(sessionId: string, title: string): SessionAction {
    return this.#writes.submit({ verb: 'rename', id: sessionId, title })
  }

  remove(sessionId: string): SessionAction {
    return this.#writes.submit({ verb: 'remove', id: sessionId })
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

  readonly #show = (write: ListWrite): void => {
    const known = this.collection.has(write.id)
    if (write.verb === 'remove') {
      if (known) this.collection.delete(write.id)
    } else if (write.verb === 'rename') {
      if (!known) return
      this.collection.update(write.id, (draft: SessionRecord) => {
        draft.title = write.title
      })
    } else if (!known) this.#insert(write)
  }

  #insert({ id, title, metadata }: Extract<ListWrite, { verb: 'create' }>): void {
    const now = new Date()
    this.collection.insert({
      id,
      title: title ?? null,
      ownerId: this.#actorId,
      metadata: metadata ?? {},
      createdAt: now,
      updatedAt: now,
    })
  }

  async #close(): Promise<void> {
    this.#writes.close()
    this.connection.close()
    await this.collection.cleanup()
    this.#held.release()
  }
}

function requestOf(write: ListWrite): WriteRequest {
  switch (write.verb) {
    case 'create': {
      const { verb: _, ...body } = write
      return { method: 'POST', path: paths.sessions(), body: body satisfies CreateSessionBody }
    }
    case 'rename':
      return { method: 'PATCH', path: paths.session(write.id), body: { title: write.title } }
    case 'remove':
      return { method: 'DELETE', path: paths.session(write.id) }
  }
}

/** What was removed before leaves nothing to remove. */
function echoes(_write: ListWrite, body: WrittenBody): boolean {
  return body['deleted'] !== false
}
