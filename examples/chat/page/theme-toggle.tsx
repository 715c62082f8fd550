/** Light or dark: the system's wish, unless the reader has chosen the other; back to it is back to following it. */
import { useEffect, useState } from 'react'
import { Icon } from './icon.js'
import { useMedia } from './use-media.js'

const KEY = 'theme'

export function ThemeToggle() {
  const systemDark = useMedia('(prefers-color-scheme: dark)')
  const [chosen, setChosen] = useState(() => localStorage.getItem(KEY))
  const dark = chosen === null ? systemDark : chosen === 'dark'

  useEffect(() => {
    if (chosen === null) {
      delete document.documentElement.dataset.theme
      localStorage.removeItem(KEY)
    } else {
      document.documentElement.dataset.theme = chosen
      localStorage.setItem(KEY, chosen)
    }
  }, [chosen])

  const other = dark ? 'light' : 'dark'
  const isSystems = systemDark === !dark
  return (
    <button
      type="button"
      className="quiet-button"
      aria-label={`Use the ${other} theme`}
      title={`Use the ${other} theme`}
      onClick={() => setChosen(isSystems ? null : other)}
    >
      <Icon name={dark ? 'sun' : 'moon'} />
    </button>
  )
}
