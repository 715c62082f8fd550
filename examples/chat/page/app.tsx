/**
 * The page: the list of chats, the open chat, and what happens behind the scenes. On a phone the list is a
 * drawer, and the scenes are below the chat.
 */
import { useEffect, useRef, useState } from 'react'
import { openSessions, type SessionList } from 'electric-ai-db/client'
import { Chat } from './chat.js'
import { closeWhenUnused } from './chat-session.js'
import { Icon } from './icon.js'
import { NewChat } from './new-chat.js'
import { useRoute } from './route.js'
import { ChatList } from './chat-list.js'
import { ACTOR, API_URL } from './surroundings.js'
import { ThemeToggle } from './theme-toggle.js'
import { useMedia } from './use-media.js'

const PHONE = '(max-width: 760px)'

export function App() {
  const sessionId = useRoute()
  const sessions = useSessions()
  const drawer = useDrawer()
  if (sessions === undefined) return null
  const menu = (
    <button
      ref={drawer.opener}
      type="button"
      className="quiet-button menu-button"
      aria-label="Show the list of chats"
      aria-expanded={drawer.isOpen}
      onClick={drawer.open}
    >
      <Icon name="menu" />
    </button>
  )
  return (
    <div className="app">
      <nav
        ref={drawer.panel}
        className="sidebar"
        data-open={drawer.isOpen || undefined}
        aria-label="Chats"
      >
        <div className="sidebar-top">
          <span className="brand">electric-ai-db</span>
          <ThemeToggle />
        </div>
        <ChatList sessions={sessions} openId={sessionId} onOpen={drawer.close} />
        <p className="hint sidebar-foot">
          Every message, answer and tool call here is a row in Postgres.
        </p>
      </nav>
      {drawer.isOpen && (
        <button
          type="button"
          className="backdrop"
          aria-label="Close the list of chats"
          onClick={drawer.close}
        />
      )}
      <div className="page" inert={drawer.isOpen}>
        {sessionId === undefined ? (
          <NewChat sessions={sessions} menu={menu} />
        ) : (
          <Chat key={sessionId} sessionId={sessionId} menu={menu} />
        )}
      </div>
    </div>
  )
}

function useSessions(): SessionList | undefined {
  const [sessions, setSessions] = useState<SessionList>()
  useEffect(() => {
    const opened = openSessions({ url: API_URL, actorId: ACTOR })
    setSessions(opened)
    return () => closeWhenUnused(opened, [opened.collection])
  }, [])
  return sessions
}

/** On a phone: takes the focus when it opens, closes on Escape, and gives the focus back. */
function useDrawer() {
  const isPhone = useMedia(PHONE)
  const [wanted, setWanted] = useState(false)
  const panel = useRef<HTMLElement>(null)
  const opener = useRef<HTMLButtonElement>(null)
  const wasOpen = useRef(false)
  const isOpen = wanted && isPhone

  useEffect(() => {
    if (isOpen) panel.current?.querySelector<HTMLElement>('.new-chat')?.focus()
    else if (wasOpen.current && document.activeElement === document.body) opener.current?.focus()
    wasOpen.current = isOpen
    if (!isOpen) return
    const onKey = (event: KeyboardEvent) => event.key === 'Escape' && setWanted(false)
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [isOpen])

  return { isOpen, panel, opener, open: () => setWanted(true), close: () => setWanted(false) }
}
