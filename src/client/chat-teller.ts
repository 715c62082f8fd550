/**
 * Tells a TanStack AI client what has changed in a chat, as AG-UI chunks: from the view it was told last to
 * the view as it is. Views, not events, are compared, so what came meanwhile, in whatever order, is told at
 * once, and whatever a client was told, it ends with the same messages.
 *
 * A message under way grows by deltas. Anything else (a message more, less or elsewhere, a text rewritten by
 * another attempt, a row in place of the live text) is a MESSAGES_SNAPSHOT, which replaces the list.
 *
 * What it knows of `ChatClient` 0.33 and its processor:
 * - A snapshot forgets the runs and the messages under way: both are told again behind it.
 * - TEXT_MESSAGE_START of a message it has begins an empty text, which replaces the message's last one.
 * - Status becomes 'streaming' when a message begins that it does not have, and leaves it when a run ends
 *   while a message is under way: once, until there is another snapshot.
 * - Any run's end settles the request that waits, unless its finishReason is 'tool_calls'.
 * - RUN_ERROR makes an empty message where none is under way: a snapshot behind it takes that away.
 */
import type { MessagePart, StreamChunk, UIMessage } from '@tanstack/ai/client'
import { EventType } from '@tanstack/ai/client'
import { deltasOf, growsTo, messageStart } from './chat-deltas.js'
import type { ChatRun, ChatView } from './chat-view.js'

/** The request of this tab that waits for its answer. */
export interface Awaited {
  /** The id TanStack AI gave the request's run. */
  readonly runId: string
  isAnsweredBy(run: ChatRun): boolean
}

interface ToldRun {
  readonly state: ChatRun['state']
  /** The interrupts it was told to wait for. */
  readonly asked: string
}

export class ChatTeller {
  readonly #threadId: string
  #messages: readonly UIMessage[] | undefined
  /** Messages under way in the client. */
  #open: ReadonlySet<string> = new Set()
  #runs = new Map<string, ToldRun>()
  /** An end was told since the last snapshot: the next one would not count for the status. */
  #spent = false
  /** By which run ids the client knows an interrupted run: its own, and that of a request it interrupted. */
  #interrupted = new Map<string, Set<string>>()

  constructor(threadId: string) {
    this.#threadId = threadId
  }

  /** The client has been told nothing, or by somebody else. */
  forget(): void {
    this.#messages = undefined
    this.#open = new Set()
    this.#runs = new Map()
  }

  tell(view: ChatView, awaited?: Awaited): StreamChunk[] {
    this.#skipHistory(view, awaited)
    const ending = this.#ending(view)
    const starting = [...view.runs.values()].filter(
      ({ id, state }) => state === 'running' && this.#runs.get(id)?.state !== 'running',
    )
    const open = this.#openIn(view, ending)
    const begins = [...open].some((id) => !this.#open.has(id))
    const chunks = [...starting, ...ending].flatMap((run) => this.#takeBackInterrupt(run))
    const grows = this.#messages !== undefined && growsTo(this.#messages, view.messages, open)
    const spent = this.#spent && (begins || starting.length > 0 || ending.length > 0)
    if (!grows || spent) chunks.push(...this.#snapshot(view, open))
    for (const run of starting) {
      this.#runs.set(run.id, { state: 'running', asked: '' })
      chunks.push(this.#runStarted(run.id))
    }
    chunks.push(...this.#tellOpen(view, open))
    for (const run of ending) chunks.push(...this.#end(run, awaited))
    if (ending.some((run) => this.#leavesTraces(run, view))) chunks.push(...this.#tidy(view))
    return chunks
  }

  /** Runs that were told to go on, or to wait, and have come to something else. */
  #ending(view: ChatView): ChatRun[] {
    return [...view.runs.values()].filter((run) => {
      const told = this.#runs.get(run.id)
      if (run.state === 'running') return false
      if (run.state === 'interrupted') return told?.asked !== askedBy(run)
      // One that was over before it could be told of ends all the same.
      return !told || told.state === 'running' || told.state === 'interrupted'
    })
  }

  /** To a client that begins, what is over is history; but for what it waits for. */
  #skipHistory(view: ChatView, awaited: Awaited | undefined): void {
    if (this.#messages) return
    for (const run of view.runs.values()) {
      const { id, state } = run
      const old = state !== 'running' && state !== 'interrupted' && !this.#runs.has(id)
      if (old && !awaited?.isAnsweredBy(run)) this.#runs.set(id, { state, asked: '' })
    }
  }

  #openIn(view: ChatView, ending: readonly ChatRun[]): Set<string> {
    const unsettled = ({ state }: ChatRun) => state !== 'finished' && state !== 'failed'
    const open = new Set(ending.map(({ id }) => id))
    for (const run of view.runs.values()) if (unsettled(run)) open.add(run.id)
    return new Set(view.messages.map(({ id }) => id).filter((id) => open.has(id)))
  }

  /** Answered or over: the question goes away, in the tabs that did not answer it, too. */
  #takeBackInterrupt({ id, state }: ChatRun): StreamChunk[] {
    if (state === 'interrupted' || this.#runs.get(id)?.state !== 'interrupted') return []
    const known = [...(this.#interrupted.get(id) ?? [])]
    this.#interrupted.delete(id)
    return known.map((runId) => this.#runFinished(runId, 'tool_calls'))
  }

  #snapshot(view: ChatView, open: ReadonlySet<string>): StreamChunk[] {
    this.#messages = undefined
    this.#spent = false
    // One that is new begins behind the snapshot, which makes the status 'streaming'.
    const messages = view.messages.filter(({ id }) => !open.has(id) || this.#open.has(id))
    const running = [...this.#runs].filter(([, { state }]) => state === 'running')
    return [snapshotOf(messages), ...running.map(([id]) => this.#runStarted(id))]
  }

  /** What is under way: all of it where it is new, what it has grown by, or its end again behind a snapshot. */
  #tellOpen(view: ChatView, open: ReadonlySet<string>): StreamChunk[] {
    const chunks = view.messages
      .filter(({ id }) => open.has(id))
      .flatMap((message) => {
        const told = this.#messages?.find(({ id }) => id === message.id)
        const begun = this.#open.has(message.id)
        if (told && begun) return deltasOf(message, told.parts)
        if (!told && !begun) return deltasOf(message, [])
        return [messageStart(message.id), ...deltasOf(message, settledParts(message))]
      })
    this.#messages = view.messages
    this.#open = open
    return chunks
  }

  #end(run: ChatRun, awaited: Awaited | undefined): StreamChunk[] {
    const told = this.#runs.get(run.id)
    this.#spent = true
    this.#runs.set(run.id, { state: run.state, asked: askedBy(run) })
    if (run.state === 'interrupted') return [this.#interrupt(run, awaited)]
    // Somebody else's answer is not the one this tab waits for.
    if (awaited?.isAnsweredBy(run) === false) return [this.#runFinished(run.id, 'tool_calls')]
    if (run.state === 'failed') {
      const message = run.error ?? 'The answer failed.'
      const { id: runId } = run
      return [{ type: EventType.RUN_ERROR, message, runId, threadId: this.#threadId }]
    }
    const finished = this.#runFinished(run.id, 'stop')
    // Without a message under way the client's status would stay as it is.
    const silent = told?.state === 'running' && !this.#open.has(run.id)
    return silent ? [messageStart(run.id), finished] : [finished]
  }

  /** Whosever run it is, the client takes it for the one of the request that is under way. */
  #interrupt(run: ChatRun, awaited: Awaited | undefined): StreamChunk {
    const known = this.#interrupted.get(run.id) ?? new Set([run.id])
    if (awaited) known.add(awaited.runId)
    this.#interrupted.set(run.id, known)
    const outcome = { type: 'interrupt' as const, interrupts: [...run.interrupts] }
    return { ...this.#runFinished(run.id, 'stop'), outcome } as StreamChunk
  }

  #leavesTraces({ id, state }: ChatRun, view: ChatView): boolean {
    return state === 'failed' || (state === 'finished' && !view.messages.some((m) => m.id === id))
  }

  #tidy(view: ChatView): StreamChunk[] {
    const open = this.#openIn(view, [])
    return [...this.#snapshot(view, open), ...this.#tellOpen(view, open)]
  }

  #runStarted(runId: string): StreamChunk {
    return { type: EventType.RUN_STARTED, threadId: this.#threadId, runId }
  }

  #runFinished(runId: string, finishReason: 'stop' | 'tool_calls'): StreamChunk {
    const metadata = { tanstack: { finishReason } }
    return { type: EventType.RUN_FINISHED, threadId: this.#threadId, runId, metadata }
  }
}

function askedBy(run: ChatRun): string {
  return run.interrupts.map(({ id }) => id).join()
}

/** What of a message need not be told again behind a snapshot that has it: all but a last part that may grow. */
function settledParts({ parts }: UIMessage): readonly MessagePart[] {
  const last = parts.at(-1)
  const grows =
    last?.type === 'text' || (last?.type === 'tool-call' && last.state === 'input-streaming')
  return grows ? parts.slice(0, -1) : parts
}

/** Copies: the client keeps them, and changes them. */
function snapshotOf(messages: readonly UIMessage[]): StreamChunk {
  const copies = messages.map((message) => ({ ...message, parts: [...message.parts] }))
  return { type: EventType.MESSAGES_SNAPSHOT, messages: copies as never }
}
