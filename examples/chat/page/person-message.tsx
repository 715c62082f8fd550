/**
 * What was said by a person: as it was typed. One's own can be edited: the new text takes its place and is
 * answered anew. A message that an agent sent without being asked is shown here too, as the markdown it is.
 */
import { useRef, useState } from 'react'
import type { MessageRecord } from 'electric-ai-db/client'
import { useSession } from './chat-session.js'
import { useGrowing } from './composer.js'
import { Icon } from './icon.js'
import { Markdown } from './markdown.js'
import { useRefusal } from './refusal.js'
import { ACTOR, nameOf } from './surroundings.js'

export interface PersonMessageProps {
  message: MessageRecord & { readonly $synced?: boolean }
}

export function PersonMessage({ message }: PersonMessageProps) {
  const session = useSession()
  const { attempt } = useRefusal()
  const [editing, setEditing] = useState(false)
  const editButton = useRef<HTMLButtonElement>(null)
  const isOwn = message.actorId === ACTOR
  const isSent = message.$synced !== false
  const close = () => {
    setEditing(false)
    requestAnimationFrame(() => editButton.current?.focus())
  }
  return (
    <li className="person" data-own={isOwn || undefined} data-message={message.id}>
      <article aria-label={`${nameOf(message.actorId)} said`}>
        {!isOwn && <p className="speaker">{nameOf(message.actorId)}</p>}
        {editing ? (
          <EditForm
            content={message.content}
            onClose={close}
            onSave={(content) => void attempt(session.edit(message.id, content))}
          />
        ) : message.role === 'user' ? (
          <p className="bubble">{message.content}</p>
        ) : (
          <Markdown text={message.content} />
        )}
        <p className="message-foot">
          {!isSent && (
            <span className="sending">
              <Icon name="clock" /> Sending…
            </span>
          )}
          {isOwn && isSent && !editing && (
            <button
              ref={editButton}
              type="button"
              className="text-button"
              aria-label={`Edit “${message.content.slice(0, 40)}”`}
              onClick={() => setEditing(true)}
            >
              <Icon name="pencil" /> Edit
            </button>
          )}
        </p>
      </article>
    </li>
  )
}

interface EditFormProps {
  content: string
  onSave: (content: string) => void
  onClose: () => void
}

function EditForm({ content, onSave, onClose }: EditFormProps) {
  const [value, setValue] = useState(content)
  const field = useRef<HTMLTextAreaElement>(null)
  useGrowing(field, value)
  const save = () => {
    const wanted = value.trim()
    if (wanted === '') return
    if (wanted !== content) onSave(wanted)
    onClose()
  }
  return (
    <form
      className="edit-form"
      onSubmit={(event) => {
        event.preventDefault()
        save()
      }}
    >
      <textarea
        ref={field}
        aria-label="Your message"
        aria-describedby="edit-hint"
        value={value}
        autoFocus
        onFocus={({ target }) => target.setSelectionRange(target.value.length, target.value.length)}
        onChange={(event) => setValue(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === 'Escape') onClose()
          if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return
          event.preventDefault()
          save()
        }}
      />
      <p id="edit-hint" className="hint">
        What follows this message is replaced.
      </p>
      <p className="edit-actions">
        <button type="button" className="button" onClick={onClose}>
          Cancel
        </button>
        <button type="submit" className="button primary">
          Save and send
        </button>
      </p>
    </form>
  )
}
