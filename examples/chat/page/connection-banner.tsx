/** Says when the page is cut off, and how much of what was written waits to go out. Silent otherwise. */
import { useSyncExternalStore } from 'react'
import type { ChatSession } from 'electric-ai-db/client'
import { Icon } from './icon.js'

export interface ConnectionBannerProps {
  source: Pick<ChatSession, 'connection' | 'refresh'>
}

export function ConnectionBanner({ source }: ConnectionBannerProps) {
  const { connection } = source
  const { online, waiting, error } = useSyncExternalStore(connection.subscribe, connection.get)
  return (
    <div role="status" className="banner-place">
      {(!online || error !== undefined) && (
        <p className="banner">
          <Icon name="clock" />
          <span>
            {online ? (error?.message ?? '') : 'You are offline.'} {waitingText(waiting)}
          </span>
          <button type="button" className="text-button" onClick={() => source.refresh()}>
            Try again
          </button>
        </p>
      )}
    </div>
  )
}

function waitingText(waiting: number): string {
  if (waiting === 0) return 'What is here can be read.'
  const what = waiting === 1 ? '1 change waits and goes' : `${waiting} changes wait and go`
  return `${what} out when you are back.`
}
