/** The rows of a chat as they change: every insert, update and delete that arrives by sync, newest first. */
import { useEffect, useState } from 'react'
import type { ChatSession } from 'electric-ai-db/client'

export interface RowTransition {
  id: number
  /** When this page learned of it. */
  at: Date
  table: 'messages' | 'generations' | 'tool_calls' | 'approvals'
  rowId: string
  from: string | undefined
  to: string
  detail: string
}

const KEPT = 60

export function useRowTransitions(session: ChatSession): readonly RowTransition[] {
  const [transitions, setTransitions] = useState<readonly RowTransition[]>([])
  useEffect(
    () => watchRows(session, (fresh) => setTransitions((all) => [...fresh, ...all].slice(0, KEPT))),
    [session],
  )
  return transitions
}

type Tell = (fresh: RowTransition[]) => void
type Row = { id: string }
type Change<R> = { type: 'insert' | 'update' | 'delete'; value: R; previousValue?: R }
interface WatchedCollection<R> {
  values(): IterableIterator<R>
  subscribeChanges(on: (changes: Change<R>[]) => void): { unsubscribe(): void }
}
type Described = { state: string; detail: string }

let counted = 0

function watchRows(session: ChatSession, tell: Tell): () => void {
  const { messages, generations, toolCalls, approvals } = session.collections

  const watch = <R extends Row>(
    table: RowTransition['table'],
    collection: WatchedCollection<R>,
    describe: (row: R) => Described,
  ) => {
    const known = new Map([...collection.values()].map((row) => [row.id, describe(row).state]))
    const subscription = collection.subscribeChanges((changes) => {
      const fresh = changes.flatMap((change): RowTransition[] => {
        const { id } = change.value
        const from = change.previousValue ? describe(change.previousValue).state : known.get(id)
        const { state, detail } = describe(change.value)
        const to = change.type === 'delete' ? 'gone' : state
        known.set(id, to)
        // The echo of an optimistic row changes nothing that is shown.
        if (from === to) return []
        return [{ id: (counted += 1), at: new Date(), table, rowId: id, from, to, detail }]
      })
      if (fresh.length > 0) tell(fresh.toReversed())
    })
    return () => subscription.unsubscribe()
  }

  const unwatch = [
    watch('messages', messages, (row) => ({
      state: row.supersededBy === null ? (row.processed ? 'processed' : 'new') : 'superseded',
      detail: `${row.role}, ${row.content.length} characters`,
    })),
    watch('generations', generations, (row) => ({
      state: row.waitReason === null ? row.status : `${row.status} for ${row.waitReason}`,
      detail: `attempt ${row.attempt}${row.workerId === null ? '' : `, ${shortId(row.workerId)}`}`,
    })),
    watch('tool_calls', toolCalls, (row) => ({
      state: row.approvedAt !== null && row.status === 'pending' ? 'approved' : row.status,
      detail: row.name,
    })),
    watch('approvals', approvals, (row) => ({ state: row.action, detail: row.reason ?? '' })),
  ]
  return () => unwatch.forEach((stop) => stop())
}

/** The end of an id tells rows apart; its beginning is often the time. */
export function shortId(id: string): string {
  return id.slice(-6)
}
