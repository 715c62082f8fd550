/**
 * `chatConnection(session)`: TanStack AI's connection over a session, so that `useChat` is durable:
 *
 *     const { messages, sendMessage } = useChat({ connection: chatConnection(session), live: true })
 *
 * What is sent becomes a message row, what is answered is heard from rows and live text: in every tab, from
 * every user, after any reload. One connection for each `useChat`; many may share a session.
 *
 * What it does not promise: that `stop()` stops the agent. Useful as that is to a page that is left, the
 * agent goes on; `cancel()`, or `cancelOnStop`, ends its answer. Tools given to `useChat` are not run.
 */
import type {
  Interrupt,
  ModelMessage,
  RunAgentResumeItem,
  StreamChunk,
  UIMessage,
} from '@tanstack/ai/client'
import { refuseUnknownOptions } from '../internal/options.js'
import { raceAbort } from '../internal/abort.js'
import { ChatFeed, type AwaitedRequest, type ChatSource } from './chat-feed.js'
import { chatRequestOf, type ChatRequest, type Vote } from './chat-requests.js'
import type { ChatRun } from './chat-view.js'
import type { SessionAction } from './optimistic-writes.js'

export type { ChatSource } from './chat-feed.js'

export interface ChatConnectionOptions {
  /**
   * Cancel the answer when its request is aborted: by `stop()`, and, as TanStack AI does not tell them
   * apart, when the view that asked is left before the answer is there. @default false
   */
  cancelOnStop?: boolean
}

/** A `SubscribeConnectionAdapter` of `@tanstack/ai-client`, and `cancel`. */
export interface ChatConnection {
  subscribe(signal?: AbortSignal): AsyncIterable<StreamChunk>
  /** `data.agent` names the agent it is for, where it is not the session's. */
  send(
    messages: UIMessage[] | ModelMessage[],
    data?: Record<string, unknown>,
    signal?: AbortSignal,
    runContext?: { runId: string; resume?: RunAgentResumeItem[] },
  ): Promise<void>
  joinRun(runId: string, signal?: AbortSignal): AsyncIterable<StreamChunk>
  hydrate(threadId: string): Promise<ChatHydration>
  /** Cancels whatever is being answered in the session. Resolves when that is written. */
  cancel(): Promise<void>
}

export interface ChatHydration {
  messages: UIMessage[]
  activeRun: { runId: string } | null
  interrupts: { runId: string; pending: Interrupt[] } | null
}

/** So long the text of an answer that waits for a vote is waited for. */
const TEXT_WITHIN_MS = 1_500

export function chatConnection(
  session: ChatSource,
  options: ChatConnectionOptions = {},
): ChatConnection {
  refuseUnknownOptions('chatConnection', options, ['cancelOnStop'])
  return new SessionConnection(session, options.cancelOnStop ?? false)
}

class SessionConnection implements ChatConnection {
  readonly #session: ChatSource
  readonly #cancelOnStop: boolean
  readonly #feed: ChatFeed

  constructor(session: ChatSource, cancelOnStop: boolean) {
    this.#session = session
    this.#cancelOnStop = cancelOnStop
    this.#feed = new ChatFeed(session)
  }

  // Bound: `useChat` takes them apart.
  readonly subscribe = (signal = new AbortController().signal) => this.#feed.chunks(signal)

  readonly joinRun = (runId: string, signal = new AbortController().signal) =>
    this.#feed.chunks(signal, runId)

  readonly send: ChatConnection['send'] = async (messages, data, signal, runContext) => {
    const isKnown = (id: string) => this.#session.collections.messages.has(id)
    const request = chatRequestOf(messages, runContext?.resume, isKnown)
    const agent = typeof data?.['agent'] === 'string' ? data['agent'] : undefined
    const { actions, awaited } = this.#submit(request, agent)
    const stop = () => this.#stop(awaited)
    const settle = () => signal?.removeEventListener('abort', stop)
    signal?.addEventListener('abort', stop)
    awaited.settle = settle
    awaited.runId = runContext?.runId ?? awaited.runId
    this.#feed.awaited = awaited
    const written = Promise.all(actions.map((action) => action.isPersisted.promise))
    try {
      await (signal ? raceAbort(written, signal) : written)
      awaited.written = true
      this.#feed.wake()
    } catch (thrown) {
      if (signal?.aborted) return
      settle()
      this.#forget(request, awaited)
      throw thrown
    }
  }

  readonly hydrate = async (_threadId: string): Promise<ChatHydration> => {
    await this.#session.ready
    this.#feed.watch()
    try {
      const view = await this.#withTexts()
      const runs = [...view.runs.values()]
      const active = runs.findLast(({ state }) => state === 'running')
      const asking = runs.findLast(({ state }) => state === 'interrupted')
      return {
        // What is under way comes with the run that is joined.
        messages: view.messages.filter(({ id }) => view.runs.get(id)?.state !== 'running'),
        activeRun: active ? { runId: active.id } : null,
        interrupts: asking ? { runId: asking.id, pending: [...asking.interrupts] } : null,
      }
    } finally {
      this.#feed.unwatch()
    }
  }

  readonly cancel = async (): Promise<void> => {
    await this.#session.ready
    const running = [...this.#feed.view().runs.values()].filter(isUnderWay)
    const actions = running.map(({ id }) => this.#session.cancel(id))
    await Promise.all(actions.map((action) => action.isPersisted.promise))
  }

  #submit(
    request: ChatRequest,
    agent: string | undefined,
  ): { actions: SessionAction[]; awaited: Request } {
    const { messages } = this.#session.collections
    if (request.kind === 'vote') {
      const calls = request.votes.map(({ toolCallId }) => toolCallId)
      const actions = request.votes.map((vote) => this.#vote(vote))
      return { actions, awaited: new Request((run) => this.#asks(run, calls)) }
    }
    if (request.kind === 'say') {
      const { id, content, metadata } = request
      const options = { id, ...(agent && { agent }), ...(metadata && { metadata }) }
      const answers = ({ inbox }: ChatRun) => inbox.includes(id)
      const awaited = new Request(answers, () => {
        const row = messages.get(id)
        return !row || row.supersededBy !== null || (row.processed && row.processedBy === null)
      })
      return { actions: [this.#session.send(content, options)], awaited }
    }
    const { id } = request
    const before = [...this.#feed.view().runs.values()].findLast(({ inbox }) => inbox.includes(id))
    const again = before !== undefined && !isUnderWay(before)
    const actions = again ? [this.#session.retry(before.id)] : []
    const answers = ({ inbox, id: run }: ChatRun) =>
      inbox.includes(id) && !(again && run === before.id)
    return { actions, awaited: new Request(answers) }
  }

  #vote({ toolCallId, approved, reason }: Vote): SessionAction {
    this.#feed.votes.set(toolCallId, approved)
    const options = reason === undefined ? {} : { reason }
    return approved
      ? this.#session.approve(toolCallId, options)
      : this.#session.deny(toolCallId, options)
  }

  #asks(run: ChatRun, calls: readonly string[]): boolean {
    const { toolCalls } = this.#session.collections
    return calls.some((id) => toolCalls.get(id)?.generationId === run.id)
  }

  /** Refused: the question is open again, and nobody waits. */
  #forget(request: ChatRequest, awaited: Request): void {
    if (request.kind === 'vote') {
      for (const { toolCallId } of request.votes) this.#feed.votes.delete(toolCallId)
    }
    if (this.#feed.awaited === awaited) this.#feed.awaited = undefined
  }

  #stop(awaited: Request): void {
    if (this.#feed.awaited === awaited) this.#feed.awaited = undefined
    if (!this.#cancelOnStop) return
    for (const run of this.#feed.view().runs.values()) {
      // One that has not begun has no inbox yet; it will take in what this request has sent.
      const answers = awaited.isAnsweredBy(run) || run.inbox.length === 0
      if (answers && isUnderWay(run)) void this.#session.cancel(run.id)
    }
  }

  /** The view, with the text of what waits for a vote, unless that takes too long. */
  async #withTexts() {
    const patience = AbortSignal.timeout(TEXT_WITHIN_MS)
    for (;;) {
      const view = this.#feed.view()
      const silent = [...view.runs.values()].some(
        ({ id, state }) =>
          state === 'interrupted' && this.#session.text(id).get().transcript.attempt === 0,
      )
      if (!silent || patience.aborted) return view
      await this.#feed.change(patience)
    }
  }
}

class Request implements AwaitedRequest {
  runId: string = crypto.randomUUID()
  /** Its rows are here. */
  written = false
  settle = () => {}
  readonly isAnsweredBy: (run: ChatRun) => boolean
  readonly #isGone: () => boolean

  constructor(isAnsweredBy: (run: ChatRun) => boolean, isGone = () => false) {
    this.isAnsweredBy = isAnsweredBy
    this.#isGone = isGone
  }

  isVoid(): boolean {
    return this.written && this.#isGone()
  }
}

function isUnderWay({ state }: ChatRun): boolean {
  return state === 'running' || state === 'interrupted' || state === 'waiting'
}
