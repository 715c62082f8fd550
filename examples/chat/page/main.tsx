/**
 * The page's entry. `?view=use-chat` shows the second example in place of the page.
 *
 * zod tries out whether it may make functions from text, which is faster. The page's content security policy
 * says no, and the browser would print that as an error. So zod is told before any schema is made, which is
 * when the rest is loaded. A page without such a policy needs none of this, and can import `App` as usual.
 */
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { config as configureZod } from 'zod'
import './style.css'

configureZod({ jitless: true })

const view = new URLSearchParams(location.search).get('view')
const App =
  view === 'use-chat' ? (await import('./use-chat.js')).UseChatView : (await import('./app.js')).App

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <App />
  </StrictMode>,
)
