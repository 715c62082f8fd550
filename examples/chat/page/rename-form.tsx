/** A chat's title while it is edited: Enter or leaving the field keeps it, Escape does not. */
import { useRef, useState } from 'react'

export interface RenameFormProps {
  title: string
  onRename: (title: string) => void
  onClose: () => void
}

export function RenameForm({ title, onRename, onClose }: RenameFormProps) {
  const [value, setValue] = useState(title)
  const done = useRef(false)
  const finish = (keep: boolean) => {
    if (done.current) return
    done.current = true
    const wanted = value.trim()
    if (keep && wanted !== '' && wanted !== title) onRename(wanted)
    onClose()
  }
  return (
    <form
      className="rename-form"
      onSubmit={(event) => {
        event.preventDefault()
        finish(true)
      }}
    >
      <input
        aria-label="Title of the chat"
        value={value}
        maxLength={200}
        autoFocus
        onFocus={(event) => event.target.select()}
        onChange={(event) => setValue(event.target.value)}
        onBlur={() => finish(true)}
        onKeyDown={(event) => {
          if (event.key !== 'Escape') return
          event.stopPropagation()
          finish(false)
        }}
      />
    </form>
  )
}
