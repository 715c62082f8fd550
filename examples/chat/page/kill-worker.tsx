/** The red button, and what it measured. */
import { useEffect, useState } from 'react'
import type { GenerationRecord } from 'electric-ai-db/client'
import { useSession } from './chat-session.js'
import { useRecovery, type Recovery } from './recovery.js'

export function KillWorker({ generations }: { generations: readonly GenerationRecord[] }) {
  const { recovery, kill } = useRecovery(useSession())
  const victim = generations.findLast(({ status }) => status === 'generating')
  return (
    <section className="kill" aria-label="Kill the worker">
      <button
        type="button"
        className="kill-button"
        aria-disabled={victim === undefined}
        aria-describedby="kill-hint"
        onClick={() => victim !== undefined && void kill(victim.id)}
      >
        kill -9 the worker
      </button>
      <p id="kill-hint" className="hint">
        {victim === undefined
          ? 'Ask for something long, and press it while the answer is written.'
          : 'Ends the process that writes this answer, at once and for real.'}
      </p>
      <div role="status" className="recovery">
        {recovery !== undefined && <RecoveryText recovery={recovery} />}
      </div>
    </section>
  )
}

function RecoveryText({ recovery }: { recovery: Recovery }) {
  switch (recovery.phase) {
    case 'killing':
      return <p>Killing…</p>
    case 'recovering':
      return (
        <p>
          {recovery.killed} is dead. <Stopwatch since={recovery.since} />
        </p>
      )
    case 'recovered':
      return (
        <>
          <p className="recovery-ms">
            <strong>{Math.round(recovery.ms)} ms</strong> from kill to the next token
          </p>
          <p className="hint">
            {recovery.killed} died in attempt {recovery.attempts[0]}; another worker went on as
            attempt {recovery.attempts[1]}, in mid-sentence.
          </p>
        </>
      )
    case 'settled':
      return <p>{recovery.killed} is dead. Its answer was whole already.</p>
    case 'failed':
      return <p className="refusal">Nothing was killed: {recovery.why}</p>
  }
}

const TICK_MS = 50

function Stopwatch({ since }: { since: number }) {
  const [now, setNow] = useState(() => performance.now())
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), TICK_MS)
    return () => clearInterval(timer)
  }, [])
  return <span aria-hidden="true">{Math.max(0, Math.round(now - since))} ms</span>
}
