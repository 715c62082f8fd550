/**
 * One answer of the agent, from the row that asks for it to the message it ends as: the same element all
 * along, fed by the live text first and by the message afterwards.
 */
import type { GenerationRecord, MessageRecord, ToolCallRecord } from 'electric-ai-db/client'
import { answerParts } from './answer-parts.js'
import { useLiveText, useSession } from './chat-session.js'
import { isRunning } from './entries.js'
import { Icon } from './icon.js'
import { Markdown } from './markdown.js'
import { useRefusal } from './refusal.js'
import { ToolCallCard } from './tool-call-card.js'

export interface AnswerProps {
  generation: GenerationRecord
  message: MessageRecord | undefined
  calls: readonly ToolCallRecord[]
  /** Only the newest answer can be asked for again. */
  isNewest: boolean
}

export function Answer({ generation, message, calls, isNewest }: AnswerProps) {
  const live = useLiveText(generation.id, message === undefined)
  const parts = answerParts(live.transcript, message, calls)
  const running = isRunning(generation)
  const byId = new Map(calls.map((call) => [call.id, call]))
  const isWriting = running && message === undefined && generation.status === 'generating'
  return (
    <li className="answer" data-generation={generation.id} data-status={generation.status}>
      <article aria-label={`${generation.agentName} answered`} aria-busy={running}>
        <p className="speaker">{generation.agentName}</p>
        <div className="answer-body" data-writing={isWriting || undefined}>
          {parts.map((part) =>
            part.kind === 'text' ? (
              <Markdown key={part.key} text={part.text} />
            ) : (
              <ToolCallCard key={part.key} call={byId.get(part.id)} live={part.live} />
            ),
          )}
          {isWriting && parts.length === 0 && (
            <span className="thinking" aria-hidden="true">
              <i />
              <i />
              <i />
            </span>
          )}
        </div>
        <Outcome generation={generation} />
        {!running && (
          <AnswerFoot generation={generation} content={message?.content} canRetry={isNewest} />
        )}
      </article>
    </li>
  )
}

const CANCELLED = {
  'by-user': 'Stopped.',
  'by-timeout': 'Stopped: it took too long.',
  'by-error': 'Stopped by an error.',
} as const

function Outcome({
  generation: { status, error, cancelReason },
}: {
  generation: GenerationRecord
}) {
  if (status === 'failed') {
    return (
      <p className="outcome failed">
        <Icon name="hand" /> The answer failed: {error ?? 'no reason is known'}
      </p>
    )
  }
  if (status !== 'cancelled') return null
  return (
    <p className="outcome">
      <Icon name="stop" /> {cancelReason === null ? 'Stopped.' : CANCELLED[cancelReason]}
    </p>
  )
}

interface AnswerFootProps {
  generation: GenerationRecord
  content: string | undefined
  canRetry: boolean
}

function AnswerFoot({ generation, content, canRetry }: AnswerFootProps) {
  const session = useSession()
  const { attempt } = useRefusal()
  return (
    <p className="message-foot">
      {content !== undefined && content !== '' && (
        <button
          type="button"
          className="text-button"
          onClick={() => void navigator.clipboard.writeText(content)}
        >
          <Icon name="copy" /> Copy
        </button>
      )}
      {canRetry && (
        <button
          type="button"
          className="text-button"
          onClick={() => void attempt(session.retry(generation.id))}
        >
          <Icon name="retry" /> Retry
        </button>
      )}
    </p>
  )
}
