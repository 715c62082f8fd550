/** Who is writing, and what is waited for: read from the rows, so every tab says the same. */
import type { GenerationRecord } from 'electric-ai-db/client'

export function StatusLine({ running }: { running: readonly GenerationRecord[] }) {
  return (
    <p className="status-line">
      {running.map((generation) => (
        <span key={generation.id}>{statusOf(generation)}</span>
      ))}
    </p>
  )
}

const WAITS = {
  approval: 'waits for an approval',
  tools: 'waits for a tool',
  timer: 'waits until later',
} as const

export function statusOf({ agentName, status, waitReason, attempt }: GenerationRecord): string {
  if (status === 'waiting') return `${agentName} ${WAITS[waitReason ?? 'tools']}`
  if (status === 'generating') return `${agentName} is writing…`
  return attempt === 0 ? `${agentName} is about to answer…` : `${agentName} will go on in a moment…`
}
