/**
 * For screen readers: that an answer has begun, and what it says once it is whole. A live region over the
 * streaming text would speak every word again and again.
 */
import { useEffect, useRef, useState } from 'react'
import { isAsking, useSession, useToolCalls } from './chat-session.js'
import { isRunning, type Entry } from './entries.js'

export function Announcer({ entries, isReady }: { entries: readonly Entry[]; isReady: boolean }) {
  const calls = useToolCalls(useSession())
  const said = useRef<Set<string>>(undefined)
  const [words, setWords] = useState('')

  useEffect(() => {
    if (!isReady) return
    const asking = calls.filter(isAsking)
    const news = new Map([
      ...entries.flatMap(newsOf),
      ...asking.map(
        ({ id, name }) => [`${id} asks`, `Your approval is needed to run ${name}.`] as const,
      ),
    ])
    const isFirst = said.current === undefined
    const fresh = [...news].filter(([key]) => !said.current?.has(key))
    said.current = new Set([...(said.current ?? []), ...news.keys()])
    // What was there when the page opened is read by whoever wishes to.
    if (!isFirst && fresh.length > 0) setWords(fresh.map(([, text]) => text).join(' '))
  }, [entries, calls, isReady])

  return (
    <div className="visually-hidden" role="status" aria-live="polite">
      {words}
    </div>
  )
}

function newsOf(entry: Entry): (readonly [key: string, text: string])[] {
  if (entry.kind === 'message') return []
  const { generation, message } = entry
  const { id, agentName, status, error } = generation
  if (isRunning(generation)) {
    return status === 'generating' ? [[`${id} begins`, `${agentName} is writing.`]] : []
  }
  if (status === 'failed') return [[`${id} ends`, `The answer failed. ${error ?? ''}`]]
  if (status === 'cancelled') return [[`${id} ends`, 'The answer was stopped.']]
  return message === undefined ? [] : [[`${id} ends`, `${agentName}: ${message.content}`]]
}
