/**
 * The same chat through TanStack AI's `useChat`, at `?view=use-chat&session=…`: nothing here knows of rows.
 * What differs from any other `useChat` is the connection, and that the chat is still there after a reload, in
 * another tab, and when the worker died. Plain on purpose: it is here to be read.
 */
import { useChat, type UIMessage } from '@tanstack/ai-react'
import { useMemo, useRef } from 'react'
import { chatConnection, type ChatSession } from 'electric-ai-db/client'
import { useOpenSession } from './chat-session.js'
import { Composer } from './composer.js'
import { Markdown } from './markdown.js'
import { useRoute } from './route.js'
import { useStayAtEnd } from './use-stay-at-end.js'

export function UseChatView() {
  const sessionId = useRoute()
  if (sessionId !== undefined) return <OpenChat sessionId={sessionId} />
  return (
    <main className="welcome">
      <h1>Open a chat first</h1>
      <p>
        <a href="/">Begin one</a>, then put <code>view=use-chat&amp;</code> before its{' '}
        <code>session=</code> in the address.
      </p>
    </main>
  )
}

function OpenChat({ sessionId }: { sessionId: string }) {
  const session = useOpenSession(sessionId)
  return session && <Chat key={sessionId} session={session} />
}

function Chat({ session }: { session: ChatSession }) {
  const place = useRef<HTMLDivElement>(null)
  useStayAtEnd(place)
  const connection = useMemo(() => chatConnection(session), [session])
  const { messages, sendMessage, sessionGenerating, addToolApprovalResponse, error } = useChat({
    connection,
    live: true,
    persistence: true,
    threadId: session.sessionId,
  })
  return (
    <main className="chat-main single">
      <h1 className="visually-hidden">A chat through useChat</h1>
      <div
        ref={place}
        className="thread-scroll"
        tabIndex={0}
        role="group"
        aria-label="Conversation"
      >
        <ol className="thread">
          {messages.map((message) => (
            <Message
              key={message.id}
              message={message}
              onVote={(id, approved) => void addToolApprovalResponse({ id, approved })}
            />
          ))}
        </ol>
      </div>
      <div className="chat-foot">
        {error && (
          <p role="alert" className="refusal">
            {error.message}
          </p>
        )}
        <p className="status-line">{sessionGenerating ? 'Somebody is answered…' : ''}</p>
        <Composer
          onSend={(content) => sendMessage(content).then(() => true)}
          onStop={sessionGenerating ? () => void connection.cancel() : undefined}
        />
      </div>
    </main>
  )
}

interface MessageProps {
  message: UIMessage
  onVote: (approvalId: string, approved: boolean) => void
}

function Message({ message: { role, parts }, onVote }: MessageProps) {
  const isOwn = role === 'user'
  return (
    <li className={isOwn ? 'person' : 'answer'} data-own={isOwn || undefined}>
      <article aria-label={isOwn ? 'You said' : 'The assistant answered'}>
        {parts.map((part, index) => {
          if (part.type === 'tool-call')
            return <ToolCall key={part.id} part={part} onVote={onVote} />
          if (part.type !== 'text') return null
          if (!isOwn) return <Markdown key={index} text={part.content} />
          return (
            <p key={index} className="bubble">
              {part.content}
            </p>
          )
        })}
      </article>
    </li>
  )
}

type ToolCallPart = Extract<UIMessage['parts'][number], { type: 'tool-call' }>

function ToolCall({ part, onVote }: { part: ToolCallPart } & Pick<MessageProps, 'onVote'>) {
  const { name, state, approval } = part
  const isAsking = state === 'approval-requested' && approval?.approved === undefined
  return (
    <div role="group" className="tool-card" aria-label={`Tool call ${name}`}>
      <p className="tool-head">
        <code className="tool-name">{name}</code>
        <span className="tool-summary">{part.arguments}</span>
        <span className="tool-stand">{state}</span>
      </p>
      {approval && isAsking && (
        <div className="approval approval-actions" role="group" aria-label={`Approval of ${name}`}>
          <button
            type="button"
            className="button primary"
            onClick={() => onVote(approval.id, true)}
          >
            Approve
          </button>
          <button type="button" className="button" onClick={() => onVote(approval.id, false)}>
            Deny
          </button>
        </div>
      )}
    </div>
  )
}
