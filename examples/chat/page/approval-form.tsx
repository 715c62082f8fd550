/**
 * A person's consent to one tool call. The vote is bound to the arguments shown here: if they are others by
 * the time it arrives, it is refused and nothing runs.
 */
import { useId, useState } from 'react'
import type { ToolCallRecord } from 'electric-ai-db/client'
import { useApprovals, useSession } from './chat-session.js'
import { Icon } from './icon.js'
import { useRefusal } from './refusal.js'
import { ACTOR, nameOf } from './surroundings.js'

export function ApprovalForm({ call }: { call: ToolCallRecord }) {
  const session = useSession()
  const { attempt } = useRefusal()
  const [reason, setReason] = useState('')
  const reasonId = useId()
  const votes = useVotes(call.id)
  const mine = votes.find(({ actorId }) => actorId === ACTOR)
  if (mine !== undefined) {
    return <p className="approval hint">You have voted. Waiting for the other votes.</p>
  }
  const options = reason.trim() === '' ? {} : { reason: reason.trim() }
  const missing =
    call.approvalsRequired - votes.filter(({ action }) => action === 'approved').length
  return (
    <div className="approval" role="group" aria-label={`Approval of ${call.name}`}>
      <p>
        The assistant wants to run <code>{call.name}</code> with exactly these arguments.
        {call.approvalsRequired > 1 &&
          ` ${missing} of ${call.approvalsRequired} approvals missing.`}
      </p>
      <label htmlFor={reasonId}>Reason (optional)</label>
      <input
        id={reasonId}
        value={reason}
        maxLength={2000}
        onChange={(event) => setReason(event.target.value)}
      />
      <div className="approval-actions">
        <button
          type="button"
          className="button primary"
          onClick={() => void attempt(session.approve(call.id, options))}
        >
          <Icon name="check" /> Approve
        </button>
        <button
          type="button"
          className="button"
          onClick={() => void attempt(session.deny(call.id, options))}
        >
          <Icon name="cross" /> Deny
        </button>
      </div>
    </div>
  )
}

const ACTIONS = { approved: 'approved it', denied: 'denied it', expired: 'Nobody answered in time' }

/** Who agreed and who did not, with their reasons. */
export function Votes({ call }: { call: ToolCallRecord }) {
  const votes = useVotes(call.id)
  if (votes.length === 0) return null
  return (
    <ul className="votes">
      {votes.map(({ id, actorId, action, reason }) => (
        <li key={id}>
          {action === 'expired' ? ACTIONS.expired : `${nameOf(actorId)} ${ACTIONS[action]}`}
          {reason !== null && `: “${reason}”`}
        </li>
      ))}
    </ul>
  )
}

/** None for a call that has no row yet. */
export function useVotes(toolCallId: string | undefined) {
  return useApprovals(useSession()).flatMap((approval) => {
    const { action } = approval
    return approval.toolCallId === toolCallId && action !== 'requested'
      ? [{ ...approval, action }]
      : []
  })
}
