/**
 * Kills the worker that writes an answer, and measures how long the reader waits: from the click to the first
 * new text of the next attempt in this page. What the dead worker had still sent does not count.
 */
import { useCallback, useEffect, useRef, useState } from 'react'
import type { ChatSession } from 'electric-ai-db/client'

export type Recovery =
  | { phase: 'killing' }
  | { phase: 'recovering'; killed: string; since: number }
  | { phase: 'recovered'; killed: string; ms: number; attempts: [from: number, to: number] }
  | { phase: 'settled'; killed: string }
  | { phase: 'failed'; why: string }

/** What `POST /demo/kill` answers. */
export interface KillAnswer {
  /** For people: which process is gone. */
  killed?: string
  error?: string
}

export function useRecovery(session: ChatSession) {
  const [recovery, setRecovery] = useState<Recovery>()
  const unsubscribe = useRef<() => void>(undefined)
  useEffect(() => () => unsubscribe.current?.(), [session])

  const kill = useCallback(
    async (generationId: string) => {
      unsubscribe.current?.()
      setRecovery({ phase: 'killing' })
      const since = performance.now()
      const live = session.text(generationId)
      const watch = watchForNextToken(live, since, setRecovery)
      unsubscribe.current = watch.stop
      const answer = await askToKill(generationId)
      if (answer.killed === undefined) {
        watch.stop()
        setRecovery({ phase: 'failed', why: answer.error ?? 'nobody knows why' })
      } else watch.killed(answer.killed)
    },
    [session],
  )
  return { recovery, kill }
}

type LiveText = ReturnType<ChatSession['text']>

function watchForNextToken(live: LiveText, since: number, tell: (now: Recovery) => void) {
  const before = live.get().transcript.attempt
  let shown = live.get().text
  let killed: string | undefined
  let outcome: ((killed: string) => Recovery) | undefined
  const look = () => {
    if (outcome !== undefined) return
    const { text, transcript, status } = live.get()
    const { attempt } = transcript
    if (attempt <= before) shown = text
    else if (!shown.startsWith(text)) {
      const ms = performance.now() - since
      outcome = (name) => ({ phase: 'recovered', killed: name, ms, attempts: [before, attempt] })
    }
    const isOver = status === 'completed' || status === 'failed' || status === 'cancelled'
    if (isOver) outcome ??= (name) => ({ phase: 'settled', killed: name })
    if (outcome !== undefined && killed !== undefined) tell(outcome(killed))
  }
  const stop = live.subscribe(look)
  return {
    stop,
    killed: (name: string) => {
      killed = name
      tell(outcome?.(name) ?? { phase: 'recovering', killed: name, since })
    },
  }
}

async function askToKill(generationId: string): Promise<KillAnswer> {
  try {
    const response = await fetch('/demo/kill', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ generationId }),
    })
    if (response.status === 404) return { error: 'this server has no such route; the demo has.' }
    return (await response.json()) as KillAnswer
  } catch (thrown) {
    return { error: thrown instanceof Error ? thrown.message : String(thrown) }
  }
}
