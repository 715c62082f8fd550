/** Before the first message: it names the chat, and the chat is created with it. */
import { useEffect, useState } from 'react'
import type { SessionList } from 'electric-ai-db/client'
import { Composer } from './composer.js'
import { ConnectionBanner } from './connection-banner.js'
import { keepFirstMessage } from './first-message.js'
import { go } from './route.js'

const SUGGESTIONS = [
  'What is 17*23, and what time is it in Tokyo?',
  'Who is Ada Lovelace?',
  'Tell me a story.',
  'Delete notes.txt.',
]

const TITLE_CHARS = 60

export function NewChat({ sessions, menu }: { sessions: SessionList; menu: React.ReactNode }) {
  const [creating, setCreating] = useState(false)
  const [refused, setRefused] = useState<string>()

  useEffect(() => {
    document.title = 'Chat · electric-ai-db'
  }, [])

  const begin = async (content: string): Promise<boolean> => {
    setCreating(true)
    setRefused(undefined)
    try {
      const { id, isPersisted } = sessions.create({ title: titleFrom(content) })
      await isPersisted.promise
      keepFirstMessage(id, content)
      go(id)
      return true
    } catch (thrown) {
      setCreating(false)
      setRefused(thrown instanceof Error ? thrown.message : String(thrown))
      return false
    }
  }
  return (
    <div className="chat">
      <header className="chat-top">{menu}</header>
      <main className="chat-main">
        <div className="welcome">
          <h1>What would you like to know?</h1>
          <p className="welcome-lead">
            The answer is written by a worker process, step by step, as rows. Reload, open a second
            tab, or kill the worker: it goes on where it was.
          </p>
          <ul className="suggestions" aria-label="Suggestions">
            {SUGGESTIONS.map((text) => (
              <li key={text}>
                <button type="button" disabled={creating} onClick={() => void begin(text)}>
                  {text}
                </button>
              </li>
            ))}
          </ul>
        </div>
        <div className="chat-foot">
          <ConnectionBanner source={sessions} />
          {refused !== undefined && (
            <p role="alert" className="refusal">
              {refused}
            </p>
          )}
          <Composer busy={creating} placeholder="Ask anything" onSend={begin} />
        </div>
      </main>
    </div>
  )
}

/** The first line, cut at a word. */
function titleFrom(content: string): string {
  const line = content.trim().split('\n')[0]!
  if (line.length <= TITLE_CHARS) return line
  return `${line.slice(0, TITLE_CHARS).replace(/\s+\S*$/, '')}…`
}
