/** Where a message is written. Enter sends it, Shift+Enter begins a line; what is typed survives a refusal. */
import { useEffect, useLayoutEffect, useRef, useState } from 'react'
import { Icon } from './icon.js'

export interface ComposerProps {
  /** Resolves with whether it was taken. */
  onSend: (content: string) => Promise<boolean>
  /** Present while an answer is written. */
  onStop?: (() => void) | undefined
  busy?: boolean
  placeholder?: string
}

export function Composer({ onSend, onStop, busy, placeholder = 'Write a message' }: ComposerProps) {
  const [content, setContent] = useState('')
  const field = useRef<HTMLTextAreaElement>(null)
  useGrowing(field, content)
  useEffect(() => field.current?.focus(), [])

  const isEmpty = content.trim() === ''
  const send = async () => {
    if (isEmpty || busy) return
    setContent('')
    field.current?.focus()
    const taken = await onSend(content.trim())
    if (!taken) setContent((typed) => (typed === '' ? content : typed))
  }
  return (
    <form
      className="composer"
      onSubmit={(event) => {
        event.preventDefault()
        void send()
      }}
    >
      <textarea
        id="composer"
        ref={field}
        rows={1}
        aria-label="Message"
        aria-describedby="composer-hint"
        placeholder={placeholder}
        value={content}
        onChange={(event) => setContent(event.target.value)}
        onKeyDown={(event) => {
          // An input method uses Enter to choose a word.
          if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return
          event.preventDefault()
          void send()
        }}
      />
      {onStop && (
        <button
          type="button"
          className="round-button"
          aria-label="Stop the answer"
          onClick={onStop}
        >
          <Icon name="stop" />
        </button>
      )}
      <button
        type="submit"
        className="round-button primary"
        aria-label="Send"
        aria-disabled={isEmpty || busy}
      >
        <Icon name="send" />
      </button>
      <span id="composer-hint" className="visually-hidden">
        Enter sends, Shift and Enter begin a new line.
      </span>
    </form>
  )
}

/** As high as its text, up to what the style sheet allows. */
export function useGrowing(field: React.RefObject<HTMLTextAreaElement | null>, content: string) {
  useLayoutEffect(() => {
    const { current } = field
    if (current === null) return
    current.style.height = 'auto'
    current.style.height = `${current.scrollHeight}px`
  }, [field, content])
}
