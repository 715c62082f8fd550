/** The chat's link: whoever opens it, on any device, is in the same chat. */
import { useEffect, useState } from 'react'
import { Icon } from './icon.js'

const SHOWN_MS = 2_000

export function CopyLink() {
  const [copied, setCopied] = useState(false)
  useEffect(() => {
    if (!copied) return
    const timer = setTimeout(() => setCopied(false), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [copied])
  return (
    <button
      type="button"
      className="quiet-button labelled"
      title="Whoever opens the link is in this chat"
      onClick={() => void navigator.clipboard.writeText(location.href).then(() => setCopied(true))}
    >
      <Icon name={copied ? 'check' : 'link'} />
      <span aria-live="polite">{copied ? 'Copied' : 'Copy link'}</span>
    </button>
  )
}
