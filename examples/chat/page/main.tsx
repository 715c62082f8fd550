/**
 * The page's entry.
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

const { App } = await import('./app.js')

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <App />
  </StrictMode>,
)
