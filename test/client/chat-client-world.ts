/** TanStack AI's own `ChatClient`, which `useChat` wraps, over a tab of a session; and what it shows. */
import { ChatClient } from '@tanstack/ai-client'
import { onTestFinished } from 'vitest'
import { chatConnection, type ChatConnectionOptions, type ChatSession } from '../../src/client.js'
import { pollUntil } from '../support/poll-until.js'

export interface OpenedChat {
  client: ChatClient
  session: ChatSession
  connection: ReturnType<typeof chatConnection>
  /** Every status, in order. */
  statuses: string[]
  errors: Error[]
  /** The answers whose end `onFinish` told. */
  finished: string[]
  /** The types of all chunks, in order. */
  chunks: string[]
  /** Every text the last assistant message was seen with. */
  texts: string[]
  lines(): string[]
  /** Waits until the chat shows exactly this. */
  shows(lines: readonly string[]): Promise<void>
  /** Waits until the last message's text fits. */
  says(fits: RegExp): Promise<void>
  /** Waits until nothing is under way. */
  rests(status?: 'ready' | 'error'): Promise<void>
}

export interface ChatOptions extends ChatConnectionOptions {
  /** As `useChat({ live: true })`. @default true */
  live?: boolean
  /** As `useChat({ persistence: true })`: what is there is asked for, and what is under way is joined. */
  persistence?: boolean
}

/** What `useChat` does when its view is mounted. */
export function openChat(session: ChatSession, options: ChatOptions = {}): OpenedChat {
  const { live = true, persistence = false, ...rest } = options
  const connection = chatConnection(session, rest)
  const statuses: string[] = []
  const errors: Error[] = []
  const finished: string[] = []
  const chunks: string[] = []
  const texts: string[] = []
  const client = new ChatClient({
    connection,
    threadId: session.sessionId,
    ...(persistence && { persistence: true as const }),
    onStatusChange: (status) => statuses.push(status),
    onError: (error) => errors.push(error),
    onFinish: (message) => finished.push(textOf(message.parts)),
    onChunk: (chunk) => chunks.push(chunk.type),
    onMessagesChange: (messages) => {
      const last = messages.at(-1)
      if (last?.role !== 'assistant') return
      const text = textOf(last.parts)
      if (texts.at(-1) !== text) texts.push(text)
    },
  })
  if (live) client.subscribe()
  client.attach()
  onTestFinished(() => client.dispose())
  const lines = () => client.getMessages().map(({ role, parts }) => `${role}: ${textOf(parts)}`)
  const shows = async (wanted: readonly string[]) => {
    const same = () => JSON.stringify(lines()) === JSON.stringify(wanted)
    await pollUntil(`the chat ${JSON.stringify(wanted)}`, same).catch((error: Error) => {
      throw new Error(`${error.message}; it shows ${JSON.stringify(lines())}`)
    })
  }
  const rests = async (status = 'ready') => {
    const rest = () =>
      !client.getIsLoading() && !client.getSessionGenerating() && client.getStatus() === status
    await pollUntil(`status ${status}`, rest).catch((error: Error) => {
      const now = [client.getStatus(), client.getIsLoading(), client.getSessionGenerating()]
      throw new Error(`${error.message}; it is ${now.join()}, after ${chunks.slice(-12).join()}`)
    })
  }
  const says = (fits: RegExp) =>
    pollUntil(`the chat says ${fits}`, () => fits.test(lines().at(-1) ?? '')).then(() => undefined)
  return {
    client,
    session,
    connection,
    statuses,
    errors,
    finished,
    chunks,
    texts,
    lines,
    shows,
    says,
    rests,
  }
}

type Parts = ReturnType<ChatClient['getMessages']>[number]['parts']

/** Texts, and calls as `[name:state]`; what a component would show. */
export function textOf(parts: Parts): string {
  return parts
    .map((part) => {
      if (part.type === 'text') return part.content
      if (part.type === 'tool-call') return `[${String(part.name)}:${part.state}]`
      return ''
    })
    .join('')
}
