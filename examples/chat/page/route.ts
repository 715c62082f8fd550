/** Which chat is open is in the URL, so a second tab, a reload and a shared link all show the same one. */
import { useSyncExternalStore } from 'react'

const CHANGED = 'route-changed'

export function useRoute(): string | undefined {
  return useSyncExternalStore(subscribe, current)
}

export function linkTo(sessionId: string | undefined): string {
  return sessionId === undefined ? '/' : `/?session=${encodeURIComponent(sessionId)}`
}

export function go(sessionId: string | undefined): void {
  if (current() === sessionId) return
  history.pushState(null, '', linkTo(sessionId))
  dispatchEvent(new Event(CHANGED))
}

function current(): string | undefined {
  return new URLSearchParams(location.search).get('session') ?? undefined
}

function subscribe(listener: () => void): () => void {
  addEventListener('popstate', listener)
  addEventListener(CHANGED, listener)
  return () => {
    removeEventListener('popstate', listener)
    removeEventListener(CHANGED, listener)
  }
}
