/** Asks before a chat is deleted. The browser's own dialog: it keeps the focus, closes on Escape, gives the focus back. */
import { useEffect, useRef } from 'react'

export interface DeleteDialogProps {
  title: string
  onDelete: () => void
  onClose: () => void
}

export function DeleteDialog({ title, onDelete, onClose }: DeleteDialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const { current } = dialog
    if (current?.open === false) current.showModal()
  }, [])
  return (
    <dialog ref={dialog} className="dialog" aria-labelledby="delete-title" onClose={onClose}>
      <h2 id="delete-title">Delete this chat?</h2>
      <p>
        “{title}” and everything in it will be gone, for everybody who has its link. An answer that
        is being written is stopped.
      </p>
      <form method="dialog" className="dialog-actions">
        <button type="submit" className="button">
          Keep it
        </button>
        <button type="submit" className="button danger" onClick={onDelete}>
          Delete
        </button>
      </form>
    </dialog>
  )
}
