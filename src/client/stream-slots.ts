/**
 * Who holds a connection for live text. Over HTTP/1.1 a browser has six to an origin, for all its windows: each
 * that is seen holds one for its shapes, so a few that all show an answer would leave none to stop it with.
 *
 * Two windows hold a connection each while they read. Any other looks for new text a few times a second, which
 * is a short request every time. Where connections are many (HTTP/2, so TLS; no browser) everybody holds one.
 */
import { delay } from '../internal/abort.js'
import { STREAM_START } from '../streams/stream-pages.js'

export interface StreamSlot {
  /** Idempotent. A window that is closed releases by itself. */
  release(): void
}

const SLOTS = 2
const LOOK_EVERY_MS = 250

const unlimited: StreamSlot = { release: () => undefined }

/** @param url The handler's. @returns undefined where all are taken. */
export async function takeStreamSlot(url: string): Promise<StreamSlot | undefined> {
  const { origin, protocol } = new URL(url)
  const locks = typeof window === 'undefined' ? undefined : window.navigator.locks
  if (!locks || protocol === 'https:') return unlimited
  for (let slot = 0; slot < SLOTS; slot += 1) {
    const taken = await tryToTake(locks, `electric-ai-db live text ${origin} ${slot}`)
    if (taken) return taken
  }
  return undefined
}

function tryToTake(locks: LockManager, name: string): Promise<StreamSlot | undefined> {
  return new Promise((resolve) => {
    const held = locks.request(name, { ifAvailable: true }, (lock) => {
      if (!lock) return resolve(undefined)
      return new Promise<void>((release) => resolve({ release }))
    })
    // Refused (a sandboxed frame): as if there were no locks.
    held.catch(() => resolve(unlimited))
  })
}

/** For a reader that long-polls: a wait becomes a look after a moment. Only for a stream to begin it waits. */
export function makeLookingFetch(request: typeof fetch): typeof fetch {
  return async (input, init) => {
    const url = new URL(String(input))
    if (url.searchParams.get('live') === 'long-poll') {
      url.searchParams.delete('live')
      await delay(LOOK_EVERY_MS, init?.signal ?? undefined)
    } else if (url.searchParams.get('offset') === STREAM_START) {
      url.searchParams.set('live', 'long-poll')
    }
    return request(url, init)
  }
}
