/** One tool call, live: what was asked for, where it stands, what came back, and who must agree to it. */
import { useState } from 'react'
import type { ToolCallRecord, TranscriptToolCall } from 'electric-ai-db/client'
import { ApprovalForm, useVotes, Votes } from './approval-form.js'
import { isAsking } from './chat-session.js'
import { Icon, type IconName } from './icon.js'

export interface ToolCallCardProps {
  /** Its row; absent while the model is still writing the call. */
  call: ToolCallRecord | undefined
  live: TranscriptToolCall | undefined
}

type Stand =
  'writing' | 'asking' | 'waiting' | 'running' | 'completed' | 'denied' | 'failed' | 'cancelled'

const STANDS: Record<Stand, { label: string; icon: IconName }> = {
  writing: { label: 'being written', icon: 'pencil' },
  asking: { label: 'needs your approval', icon: 'hand' },
  waiting: { label: 'waits for an executor', icon: 'clock' },
  running: { label: 'running', icon: 'clock' },
  completed: { label: 'done', icon: 'check' },
  denied: { label: 'denied', icon: 'cross' },
  failed: { label: 'failed', icon: 'cross' },
  cancelled: { label: 'cancelled', icon: 'stop' },
}

export function ToolCallCard({ call, live }: ToolCallCardProps) {
  const isDenied = useVotes(call?.id).some(({ action }) => action === 'denied')
  const stand = isDenied ? 'denied' : standOf(call, live)
  const [wanted, setWanted] = useState<boolean>()
  const isOpen = wanted ?? stand === 'asking'
  const name = call?.name ?? live?.name ?? 'tool'
  const { label, icon } = STANDS[stand]
  return (
    <div role="group" className="tool-card" data-stand={stand} aria-label={`Tool call ${name}`}>
      <button
        type="button"
        className="tool-head"
        aria-expanded={isOpen}
        onClick={() => setWanted(!isOpen)}
      >
        <span className="tool-icon">
          <Icon name={icon} />
        </span>
        <code className="tool-name">{name}</code>
        <span className="tool-summary">{summaryOf(call, live)}</span>
        <span className="tool-stand">{label}</span>
        <Icon name="chevron" />
      </button>
      {isOpen && (
        <div className="tool-body">
          <Value
            label="Arguments"
            text={call === undefined ? (live?.args ?? '') : json(call.args)}
          />
          {call?.status === 'completed' && <Value label="Result" text={json(call.result)} />}
          {call?.error != null && <Value label="Error" text={call.error} />}
          {call !== undefined && call.approvalsRequired > 0 && <Votes call={call} />}
        </div>
      )}
      {stand === 'asking' && call !== undefined && <ApprovalForm call={call} />}
    </div>
  )
}

function Value({ label, text }: { label: string; text: string }) {
  return (
    <figure className="tool-value">
      <figcaption>{label}</figcaption>
      <pre tabIndex={0}>{text}</pre>
    </figure>
  )
}

function standOf(call: ToolCallRecord | undefined, live: TranscriptToolCall | undefined): Stand {
  if (call === undefined) {
    return live === undefined || live.state === 'called' || live.state === 'streaming'
      ? 'writing'
      : live.state
  }
  if (call.status === 'executing') return 'running'
  if (call.status !== 'pending') return call.status
  return isAsking(call) ? 'asking' : 'waiting'
}

/** The arguments in one short line. */
function summaryOf(call: ToolCallRecord | undefined, live: TranscriptToolCall | undefined): string {
  const args = call?.args
  if (args === null || typeof args !== 'object') return live?.args ?? ''
  return Object.values(args)
    .map((value) => (typeof value === 'string' ? value : JSON.stringify(value)))
    .join(', ')
}

function json(value: unknown): string {
  return JSON.stringify(value, null, 2) ?? 'nothing'
}
