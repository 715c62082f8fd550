/** A chat in React: the open session, its rows as state, and its live texts. */
import { useLiveQuery } from '@tanstack/react-db'
import { createContext, useContext, useEffect, useState, useSyncExternalStore } from 'react'
import {
  openSession,
  type ChatSession,
  type LiveTextState,
  type ToolCallRecord,
} from 'electric-ai-db/client'
import { ACTOR, API_URL } from './surroundings.js'

export const SessionContext = createContext<ChatSession | undefined>(undefined)

/** The session of the chat around this component. */
export function useSession(): ChatSession {
  const session = useContext(SessionContext)
  if (session === undefined) throw new Error('There is no SessionContext around this component.')
  return session
}

/** Opens a session for as long as a component shows it. */
export function useOpenSession(sessionId: string): ChatSession | undefined {
  const [session, setSession] = useState<ChatSession>()
  useEffect(() => {
    const opened = openSession({ url: API_URL, sessionId, actorId: ACTOR })
    setSession(opened)
    return () => closeWhenUnused(opened, Object.values(opened.collections))
  }, [sessionId])
  return session?.sessionId === sessionId ? session : undefined
}

/**
 * Closes what no component shows any more, when the live queries over it have let go of it: they do that when the
 * browser is idle, and complain about collections that go before them.
 */
export function closeWhenUnused(
  opened: { close(): Promise<void> },
  collections: readonly { readonly subscriberCount: number }[],
  patienceMs = PATIENCE_MS,
): void {
  const isUnused = collections.every(({ subscriberCount }) => subscriberCount === 0)
  if (isUnused || patienceMs <= 0) return void opened.close()
  setTimeout(() => closeWhenUnused(opened, collections, patienceMs - LOOK_EVERY_MS), LOOK_EVERY_MS)
}

const LOOK_EVERY_MS = 250
const PATIENCE_MS = 30_000

export type Readiness = 'loading' | 'ready' | 'missing'

/** Answers that no waiting will change: there is no such chat, or not for this person. */
const FINAL: ReadonlySet<string> = new Set(['NOT_FOUND', 'UNKNOWN_SESSION', 'FORBIDDEN'])

export function useReadiness(session: ChatSession): Readiness {
  const [isReady, setReady] = useState(false)
  const { connection } = session
  const { error } = useSyncExternalStore(connection.subscribe, connection.get)
  useEffect(() => {
    let shown = true
    session.ready.then(
      () => shown && setReady(true),
      () => {}, // closed before
    )
    return () => void (shown = false)
  }, [session])
  const { session: rows } = session.collections
  const { data } = useLiveQuery((q) => q.from({ row: rows }), [rows])
  if (isReady) return data.length > 0 ? 'ready' : 'missing'
  return error !== undefined && FINAL.has(error.code) ? 'missing' : 'loading'
}

export function useMessages(session: ChatSession) {
  const { messages } = session.collections
  return useLiveQuery(
    (q) => q.from({ message: messages }).orderBy((r) => r.message.seq),
    [messages],
  ).data
}

export function useGenerations(session: ChatSession) {
  const { generations } = session.collections
  return useLiveQuery(
    (q) => q.from({ generation: generations }).orderBy((r) => r.generation.createdAt),
    [generations],
  ).data
}

/** In the order in which they were asked for. */
export function useToolCalls(session: ChatSession) {
  const { toolCalls } = session.collections
  return useLiveQuery(
    (q) =>
      q
        .from({ call: toolCalls })
        .orderBy((r) => r.call.createdAt)
        .orderBy((r) => r.call.index),
    [toolCalls],
  ).data
}

/** Waits for people. */
export function isAsking({ status, approvalsRequired, approvedAt }: ToolCallRecord): boolean {
  return status === 'pending' && approvalsRequired > 0 && approvedAt === null
}

export function useApprovals(session: ChatSession) {
  const { approvals } = session.collections
  return useLiveQuery(
    (q) => q.from({ approval: approvals }).orderBy((r) => r.approval.createdAt),
    [approvals],
  ).data
}

const nothing = () => () => {}

/** Text as it is written. Nothing is read while `wanted` is false: its message says it all. */
export function useLiveText(generationId: string, wanted: boolean): LiveTextState {
  const live = useSession().text(generationId)
  return useSyncExternalStore(wanted ? live.subscribe : nothing, live.get)
}
