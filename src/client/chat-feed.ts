/**
 * The chunks of a session for one TanStack AI client, out of two doors: its subscription, and the run it
 * joins after a reload. One at a time speaks, the joined run first, and begins with a snapshot: so
 * nothing is told twice, whatever the client does.
 *
 * Pull-driven: a slow client gets fewer and larger chunks, never a backlog. While no door is open nothing
 * is watched.
 */
import type { StreamChunk } from '@tanstack/ai/client'
import { EventType } from '@tanstack/ai/client'
import { isSettledGeneration } from '../contract/status.js'
import { AiDbError } from '../errors.js'
import { deferred, raceAbort, type Deferred } from '../internal/abort.js'
import { ChatTeller, type Awaited } from './chat-teller.js'
import { chatView, type ChatRun, type ChatView } from './chat-view.js'
import type { LiveText } from './live-texts.js'
import type { ChatSession } from './open-session.js'

/** What the connection needs of a session. */
export type ChatSource = Pick<
  ChatSession,
  'sessionId' | 'ready' | 'text' | 'send' | 'cancel' | 'retry' | 'approve' | 'deny'
> & {
  readonly collections: Pick<
    ChatSession['collections'],
    'messages' | 'generations' | 'toolCalls' | 'approvals'
  >
}

export interface AwaitedRequest extends Awaited {
  /** Will nothing answer it any more? */
  isVoid(): boolean
  /** It was answered. */
  settle(): void
}

interface Door {
  readonly joined: boolean
}

export class ChatFeed {
  /** What this tab has answered: tool call's id → approved. */
  readonly votes = new Map<string, boolean>()
  readonly #session: ChatSource
  #awaited: AwaitedRequest | undefined
  #doors: Door[] = []
  #watching = 0
  #unwatch: (() => void)[] = []
  readonly #texts = new Map<string, { text: LiveText; stop: () => void }>()
  /** What was over before anybody looked. */
  #history: ReadonlySet<string> = new Set()
  #changed: Deferred = deferred()

  constructor(session: ChatSource) {
    this.#session = session
  }

  get awaited(): AwaitedRequest | undefined {
    return this.#awaited
  }

  set awaited(request: AwaitedRequest | undefined) {
    this.#awaited = request
    this.wake()
  }

  /** Something may be told otherwise than before. */
  readonly wake = (): void => {
    const changed = this.#changed
    this.#changed = deferred()
    changed.resolve()
  }

  /** @param runId Ends with this run, or with the vote it waits for. Without: when `signal` aborts. */
  async *chunks(signal: AbortSignal, runId?: string): AsyncGenerator<StreamChunk, void> {
    if (!(await isReady(this.#session, signal))) return
    const door: Door = { joined: runId !== undefined }
    const teller = new ChatTeller(this.#session.sessionId)
    this.#doors.push(door)
    this.watch()
    this.wake()
    try {
      while (!signal.aborted) {
        const changed = this.#changed.promise
        const view = this.view()
        if (runId !== undefined) mustKnow(view, runId)
        if (this.#speaker !== door) teller.forget()
        else yield* this.#whileSpeaking(door, signal, this.#tell(teller, view))
        if (runId !== undefined && view.runs.get(runId)?.state !== 'running') return
        await raceAbort(changed, signal).catch(() => undefined)
      }
    } finally {
      this.#doors = this.#doors.filter((one) => one !== door)
      this.unwatch()
      this.wake()
    }
  }

  view(): ChatView {
    const { messages, generations, toolCalls, approvals } = this.#session.collections
    return chatView({
      messages: [...messages.values()],
      generations: [...generations.values()],
      toolCalls: [...toolCalls.values()],
      approvals: [...approvals.values()],
      votes: this.votes,
      live: (id) => this.#texts.get(id)?.text.get(),
    })
  }

  /** Rows and live texts are followed until `unwatch`, once for each of these. */
  watch(): void {
    this.#watching += 1
    if (this.#watching > 1) return
    const { messages, generations, toolCalls, approvals } = this.#session.collections
    const watched = [
      // One by one: the newest TanStack DB's types cannot call a union of them.
      messages.subscribeChanges(this.wake),
      toolCalls.subscribeChanges(this.wake),
      approvals.subscribeChanges(this.wake),
      generations.subscribeChanges(() => {
        this.#followTexts()
        this.wake()
      }),
    ]
    this.#unwatch = watched.map((subscription) => () => subscription.unsubscribe())
    const over = [...generations.values()].filter(({ status }) => isSettledGeneration(status))
    this.#history = new Set(over.map(({ id }) => id))
    this.#followTexts()
  }

  unwatch(): void {
    this.#watching -= 1
    if (this.#watching > 0) return
    for (const stop of this.#unwatch) stop()
    for (const { stop } of this.#texts.values()) stop()
    this.#unwatch = []
    this.#texts.clear()
  }

  /** Resolves at the next change, or when `signal` aborts. */
  change(signal: AbortSignal): Promise<void> {
    return raceAbort(this.#changed.promise, signal).catch(() => undefined)
  }

  get #speaker(): Door | undefined {
    return this.#doors.findLast((door) => door.joined) ?? this.#doors.at(-1)
  }

  #tell(teller: ChatTeller, view: ChatView): StreamChunk[] {
    const awaited = this.#awaited
    const chunks = teller.tell(view, awaited)
    if (!awaited?.isVoid() || chunks.some(settlesRequest)) return chunks
    const ids = { runId: awaited.runId, threadId: this.#session.sessionId }
    return [...chunks, { type: EventType.RUN_FINISHED, ...ids }]
  }

  *#whileSpeaking(
    door: Door,
    signal: AbortSignal,
    chunks: readonly StreamChunk[],
  ): Generator<StreamChunk, void> {
    for (const chunk of chunks) {
      if (signal.aborted || this.#speaker !== door) return
      if (settlesRequest(chunk)) {
        this.#awaited?.settle()
        this.#awaited = undefined
      }
      yield chunk
    }
  }

  /** Of what is under way; and of what is over since, because a message comes later than its run's end. */
  #followTexts(): void {
    for (const { id } of this.#session.collections.generations.values()) {
      if (this.#history.has(id) || this.#texts.has(id)) continue
      const text = this.#session.text(id)
      this.#texts.set(id, { text, stop: text.subscribe(this.wake) })
    }
  }
}

async function isReady({ ready }: ChatSource, signal: AbortSignal): Promise<boolean> {
  try {
    await raceAbort(ready, signal)
    return true
  } catch (thrown) {
    if (signal.aborted) return false
    throw thrown
  }
}

function mustKnow({ runs }: ChatView, runId: string): ChatRun {
  const run = runs.get(runId)
  if (run) return run
  throw new AiDbError(
    'NOT_FOUND',
    `There is no run ${JSON.stringify(runId)} in this session. Load its messages, and join what they name.`,
    { field: 'runId' },
  )
}

/** Does `ChatClient` take it for the end of the request that waits? */
function settlesRequest(chunk: StreamChunk): boolean {
  if (chunk.type === EventType.RUN_ERROR) return true
  if (chunk.type !== EventType.RUN_FINISHED) return false
  const { outcome, metadata } = chunk as { outcome?: unknown; metadata?: { tanstack?: object } }
  const reason = (metadata?.tanstack as { finishReason?: string } | undefined)?.finishReason
  return outcome !== undefined || reason !== 'tool_calls'
}
