/** Puts a session's writes together: requests, outbox, shelf, optimistic rows. */
import { AiDbError } from '../errors.js'
import type { Connection } from './connection.js'
import { askToWrite, type WriteAnswer, type WriteRequest } from './handler-requests.js'
import { OptimisticWrites, type OptimisticVerbs } from './optimistic-writes.js'
import { Outbox } from './outbox.js'
import { defaultStorage, OutboxShelf, type OutboxStorage } from './outbox-shelf.js'

export interface WritesOptions<Write> extends OptimisticVerbs<Write> {
  /** Absolute, of the handler. */
  url: string
  fetch: typeof fetch
  /** Sets unsent writes in storage apart from those of other sessions of the same url. */
  scope: string
  storage: OutboxStorage | null | undefined
  connection: Connection
  requestOf(write: Write): WriteRequest
}

export function createWrites<Write extends { id: string }>(
  options: WritesOptions<Write>,
): OptimisticWrites<Write> {
  const { url, fetch: request, scope, storage = defaultStorage(), connection } = options
  const outbox = new Outbox<Write>({
    ask: (write, signal) => {
      const asked = options.requestOf(write) as WriteRequest | undefined
      return asked
        ? askToWrite({ url, fetch: request }, asked, signal)
        : Promise.resolve(unknownWrite())
    },
    health: connection.healthOf('writes'),
    shelf: new OutboxShelf(storage ?? undefined, `${url}|${scope}`),
  })
  return new OptimisticWrites(outbox, options, connection)
}

/** Left in storage by another version of the library. */
function unknownWrite(): WriteAnswer {
  const message = 'A stored write is of another version of the library. Make it again.'
  return { kind: 'refused', error: new AiDbError('INVALID_INPUT', message) }
}
