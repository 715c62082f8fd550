/** Who is writing, and what is waited for: read from the rows, so every tab says the same. */
import type { GenerationRecord } from 'electric-ai-db/client'
import { isAsking, useSession, useToolCalls } from './chat-session.js'

export function StatusLine({ running }: { running: readonly GenerationRecord[] }) {
  const asking = new Set(
    useToolCalls(useSession())
      .filter(isAsking)
      .map(({ generationId }) => generationId),
  )
  return (
    <p className="status-line">
      {running.map((generation) => (
        <span key={generation.id}>{statusOf(generation, asking.has(generation.id))}</span>
      ))}
    </p>
  )
}

function statusOf(generation: GenerationRecord, asks: boolean): string {
  const { agentName, status, waitReason, attempt } = generation
  // It may hold its worker for a while before it is put down: people see no difference.
  if (asks) return `${agentName} waits for an approval`
  if (status === 'generating') return `${agentName} is writing…`
  if (status === 'waiting') {
    return waitReason === 'timer'
      ? `${agentName} waits until later`
      : `${agentName} waits for a tool`
  }
  return attempt === 0 ? `${agentName} is about to answer…` : `${agentName} will go on in a moment…`
}
