/** One open chat: its header, its thread, the message box, and the panel behind the scenes. */
import { useLiveQuery } from '@tanstack/react-db'
import { useEffect, useState } from 'react'
import type { ChatSession } from 'electric-ai-db/client'
import { Announcer } from './announcer.js'
import { BehindTheScenes } from './behind-the-scenes.js'
import {
  SessionContext,
  useGenerations,
  useMessages,
  useOpenSession,
  useReadiness,
} from './chat-session.js'
import { Composer } from './composer.js'
import { ConnectionBanner } from './connection-banner.js'
import { CopyLink } from './copy-link.js'
import { isRunning, threadEntries } from './entries.js'
import { takeFirstMessage } from './first-message.js'
import { Icon } from './icon.js'
import { RefusalProvider, useRefusal } from './refusal.js'
import { titleOf } from './chat-list.js'
import { StatusLine } from './status-line.js'
import { Thread } from './thread.js'

export interface ChatProps {
  sessionId: string
  /** The button that opens the list, on a phone. */
  menu: React.ReactNode
}

export function Chat({ sessionId, menu }: ChatProps) {
  const session = useOpenSession(sessionId)
  const [scenesOpen, setScenesOpen] = useStored('scenes')
  if (session === undefined) return null
  return (
    <SessionContext value={session}>
      <RefusalProvider>
        <div className="chat" data-scenes={scenesOpen || undefined}>
          <header className="chat-top">
            {menu}
            <Title session={session} />
            <CopyLink />
            <button
              type="button"
              className="quiet-button labelled"
              aria-expanded={scenesOpen}
              onClick={() => setScenesOpen(!scenesOpen)}
            >
              <Icon name="rows" />
              <span>Behind the scenes</span>
            </button>
          </header>
          <Conversation session={session} />
        </div>
        {scenesOpen && <BehindTheScenes onClose={() => setScenesOpen(false)} />}
      </RefusalProvider>
    </SessionContext>
  )
}

function Title({ session }: { session: ChatSession }) {
  const { session: rows } = session.collections
  const { data } = useLiveQuery((q) => q.from({ row: rows }), [rows])
  const title = data[0] === undefined ? '' : titleOf(data[0])
  useEffect(() => {
    document.title = title === '' ? 'Chat' : `${title} · Chat`
  }, [title])
  return <h1 className="chat-title">{title}</h1>
}

function Conversation({ session }: { session: ChatSession }) {
  const readiness = useReadiness(session)
  const messages = useMessages(session)
  const generations = useGenerations(session)
  const { refusal, attempt } = useRefusal()
  const entries = threadEntries(messages, generations)
  const running = generations.filter(isRunning)

  useEffect(() => {
    const first = takeFirstMessage(session.sessionId)
    if (first !== undefined) void attempt(session.send(first))
  }, [session, attempt])

  if (readiness === 'missing') return <NoSuchChat session={session} />
  return (
    <main className="chat-main">
      <div className="thread-place">
        <Thread entries={entries} isReady={readiness === 'ready'} />
      </div>
      <Announcer entries={entries} isReady={readiness === 'ready'} />
      <div className="chat-foot">
        <StatusLine running={running} />
        <ConnectionBanner source={session} />
        {refusal !== undefined && (
          <p role="alert" className="refusal">
            {refusal}
          </p>
        )}
        <Composer
          onSend={(content) => attempt(session.send(content))}
          onStop={
            running.length === 0
              ? undefined
              : () => running.forEach(({ id }) => void attempt(session.cancel(id)))
          }
        />
      </div>
    </main>
  )
}

function NoSuchChat({ session }: { session: ChatSession }) {
  return (
    <main className="welcome">
      <h2>There is no such chat</h2>
      <p>{session.connection.get().error?.message ?? 'It may have been deleted.'}</p>
      <p>
        <a href="/">Begin a new one</a>
      </p>
    </main>
  )
}

function useStored(key: string) {
  const [value, setValue] = useState(() => localStorage.getItem(key) === 'yes')
  const store = (next: boolean) => {
    localStorage.setItem(key, next ? 'yes' : 'no')
    setValue(next)
  }
  return [value, store] as const
}
