/** The chats of this browser, newest first: open one, rename it, delete it, begin another. */
import { useLiveQuery } from '@tanstack/react-db'
import { useState } from 'react'
import type { SessionList, SessionRecord } from 'electric-ai-db/client'
import { DeleteDialog } from './delete-dialog.js'
import { Icon } from './icon.js'
import { RenameForm } from './rename-form.js'
import { go, linkTo } from './route.js'

export interface ChatListProps {
  sessions: SessionList
  openId: string | undefined
  /** A chat was chosen, or a new one wished for. */
  onOpen: () => void
}

export function ChatList({ sessions, openId, onOpen }: ChatListProps) {
  const { collection } = sessions
  const { data: rows, isReady } = useLiveQuery(
    (q) => q.from({ session: collection }).orderBy((r) => r.session.createdAt, 'desc'),
    [collection],
  )
  const [deleting, setDeleting] = useState<SessionRecord>()
  const open = (id: string | undefined) => {
    go(id)
    onOpen()
  }
  return (
    <>
      <button type="button" className="new-chat" onClick={() => open(undefined)}>
        <Icon name="plus" />
        New chat
      </button>
      {isReady && rows.length === 0 && <p className="hint">Your chats will be listed here.</p>}
      <ul className="session-list">
        {rows.map((row) => (
          <SessionItem
            key={row.id}
            row={row}
            isOpen={row.id === openId}
            onOpen={() => open(row.id)}
            onRename={(title) => sessions.rename(row.id, title)}
            onDelete={() => setDeleting(row)}
          />
        ))}
      </ul>
      {deleting && (
        <DeleteDialog
          title={titleOf(deleting)}
          onClose={() => setDeleting(undefined)}
          onDelete={() => {
            sessions.remove(deleting.id)
            if (deleting.id === openId) go(undefined)
          }}
        />
      )}
    </>
  )
}

export function titleOf({ title }: Pick<SessionRecord, 'title'>): string {
  return title?.trim() || 'Untitled chat'
}

interface SessionItemProps {
  row: SessionRecord
  isOpen: boolean
  onOpen: () => void
  onRename: (title: string) => void
  onDelete: () => void
}

function SessionItem({ row, isOpen, onOpen, onRename, onDelete }: SessionItemProps) {
  const [renaming, setRenaming] = useState(false)
  const title = titleOf(row)
  if (renaming) {
    return (
      <li className="session-item">
        <RenameForm title={title} onRename={onRename} onClose={() => setRenaming(false)} />
      </li>
    )
  }
  return (
    <li className="session-item" data-open={isOpen || undefined}>
      <a
        href={linkTo(row.id)}
        aria-current={isOpen ? 'page' : undefined}
        onClick={(event) => {
          if (event.metaKey || event.ctrlKey || event.shiftKey) return
          event.preventDefault()
          onOpen()
        }}
      >
        {title}
      </a>
      <span className="session-actions">
        <button
          type="button"
          className="quiet-button small"
          aria-label={`Rename ${title}`}
          onClick={() => setRenaming(true)}
        >
          <Icon name="pencil" />
        </button>
        <button
          type="button"
          className="quiet-button small"
          aria-label={`Delete ${title}`}
          onClick={onDelete}
        >
          <Icon name="trash" />
        </button>
      </span>
    </li>
  )
}
