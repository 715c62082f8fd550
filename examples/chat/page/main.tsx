/** The page's entry. */
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { config as configureZod } from 'zod'
import { App } from './app.js'
import './style.css'

// zod would try out whether it may make functions from text; the page's policy says no, in the console.
configureZod({ jitless: true })

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <App />
  </StrictMode>,
)
