/**
 * The rows behind the chat, as they are in Postgres now, and the button that kills their worker. Nothing here
 * is told by the server of the page: it is the same sync that feeds the chat.
 */
import type { GenerationRecord, ToolCallRecord } from 'electric-ai-db/client'
import { useGenerations, useSession, useToolCalls } from './chat-session.js'
import { Icon } from './icon.js'
import { KillWorker } from './kill-worker.js'
import { shortId, useRowTransitions, type RowTransition } from './row-transitions.js'

const NEWEST = 6

export function BehindTheScenes({ onClose }: { onClose: () => void }) {
  const session = useSession()
  const generations = useGenerations(session)
  const calls = useToolCalls(session)
  const transitions = useRowTransitions(session)
  return (
    <aside
      className="scenes"
      aria-label="Behind the scenes"
      onKeyDown={(event) => event.key === 'Escape' && onClose()}
    >
      <header className="scenes-top">
        <h2>Behind the scenes</h2>
        <button
          type="button"
          className="quiet-button small"
          aria-label="Close behind the scenes"
          onClick={onClose}
        >
          <Icon name="cross" />
        </button>
      </header>
      <div className="scenes-scroll" tabIndex={0} role="group" aria-label="Rows">
        <KillWorker generations={generations} />
        <Generations rows={generations.slice(-NEWEST).toReversed()} />
        <ToolCalls rows={calls.slice(-NEWEST).toReversed()} />
        <Timeline transitions={transitions} />
      </div>
    </aside>
  )
}

function State({ state }: { state: string }) {
  // A new key is a new element, and so begins its animation anew.
  return (
    <span key={state} className="state" data-state={state.split(' ')[0]}>
      {state}
    </span>
  )
}

function Generations({ rows }: { rows: readonly GenerationRecord[] }) {
  return (
    <section className="rows" aria-labelledby="rows-generations">
      <h3 id="rows-generations">generations</h3>
      <table>
        <thead>
          <tr>
            <th scope="col">id</th>
            <th scope="col">status</th>
            <th scope="col">attempt</th>
            <th scope="col">worker</th>
            <th scope="col">tokens</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.id}>
              <td title={row.id}>{shortId(row.id)}</td>
              <td>
                <State
                  state={row.waitReason === null ? row.status : `waiting: ${row.waitReason}`}
                />
              </td>
              <td className="number">{row.attempt}</td>
              <td title={row.workerId ?? ''}>
                {row.workerId === null ? '–' : shortId(row.workerId)}
              </td>
              <td className="number">
                {row.inputTokens} → {row.outputTokens}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length === 0 && <p className="hint">No row yet. Each answer is one.</p>}
    </section>
  )
}

function ToolCalls({ rows }: { rows: readonly ToolCallRecord[] }) {
  if (rows.length === 0) return null
  return (
    <section className="rows" aria-labelledby="rows-calls">
      <h3 id="rows-calls">tool_calls</h3>
      <table>
        <thead>
          <tr>
            <th scope="col">id</th>
            <th scope="col">name</th>
            <th scope="col">status</th>
            <th scope="col">attempt</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.id}>
              <td title={row.id}>{shortId(row.id)}</td>
              <td>{row.name}</td>
              <td>
                <State state={row.status} />
              </td>
              <td className="number">{row.attempt}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}

function Timeline({ transitions }: { transitions: readonly RowTransition[] }) {
  return (
    <section className="timeline" aria-labelledby="rows-timeline">
      <h3 id="rows-timeline">As they arrive</h3>
      {transitions.length === 0 && <p className="hint">Say something, and watch.</p>}
      <ol>
        {transitions.map(({ id, at, table, rowId, from, to, detail }) => (
          <li key={id}>
            <time dateTime={at.toISOString()}>{clock(at)}</time>
            <span className="timeline-row">
              {table} <span title={rowId}>{shortId(rowId)}</span>
            </span>
            <span className="timeline-move">
              {from !== undefined && <span className="timeline-from">{from} → </span>}
              <State state={to} />
              <span className="timeline-detail">{detail}</span>
            </span>
          </li>
        ))}
      </ol>
    </section>
  )
}

function clock(at: Date): string {
  return at.toISOString().slice(14, 23)
}
