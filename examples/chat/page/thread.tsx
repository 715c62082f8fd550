/** The messages and answers of a chat, in order. It stays at its end while the reader is there, and only then. */
import { useMemo, useRef } from 'react'
import type { ToolCallRecord } from 'electric-ai-db/client'
import { Answer } from './answer.js'
import { useToolCalls, useSession } from './chat-session.js'
import type { Entry } from './entries.js'
import { Icon } from './icon.js'
import { PersonMessage } from './person-message.js'
import { useStayAtEnd } from './use-stay-at-end.js'

export function Thread({ entries, isReady }: { entries: readonly Entry[]; isReady: boolean }) {
  const place = useRef<HTMLDivElement>(null)
  const { isAtEnd, toEnd } = useStayAtEnd(place)
  const calls = useToolCalls(useSession())
  const byGeneration = useMemo(() => groupByGeneration(calls), [calls])
  const newest = entries.findLast((entry) => entry.kind === 'answer')
  return (
    <>
      <div
        ref={place}
        className="thread-scroll"
        tabIndex={0}
        role="group"
        aria-label="Conversation"
      >
        <ol className="thread" aria-busy={!isReady}>
          {entries.map((entry) =>
            entry.kind === 'message' ? (
              <PersonMessage key={entry.key} message={entry.message} />
            ) : (
              <Answer
                key={entry.key}
                generation={entry.generation}
                message={entry.message}
                calls={byGeneration.get(entry.generation.id) ?? NO_CALLS}
                isNewest={entry === newest}
              />
            ),
          )}
        </ol>
      </div>
      {!isAtEnd && (
        <button type="button" className="to-end" onClick={toEnd}>
          <Icon name="down" />
          <span className="visually-hidden">To the newest message</span>
        </button>
      )}
    </>
  )
}

const NO_CALLS: readonly ToolCallRecord[] = []

function groupByGeneration(calls: readonly ToolCallRecord[]): Map<string, ToolCallRecord[]> {
  const groups = new Map<string, ToolCallRecord[]>()
  for (const call of calls) {
    groups.set(call.generationId, [...(groups.get(call.generationId) ?? []), call])
  }
  return groups
}
