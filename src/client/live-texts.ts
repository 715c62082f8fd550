/**
 * A generation's text while it is written, as a store that any number of components may watch.
 *
 * Nothing is read unless somebody subscribes, one reader serves all subscribers of the tab, and a
 * settled generation needs no request at all: its row and its message say everything, and have the last
 * word (a failed or cancelled one keeps what was shown). Its end is heard from the synced rows.
 *
 * The text comes from the stream behind the handler or, where the handler says that there is no stream
 * server, from synced chunk rows: the same items, so the same text. A page that is hidden reads
 * nothing, as its shapes do: connections are few.
 */
import type { GenerationRecord, MessageRecord } from '../contract/records.js'
import { isSettledGeneration, type GenerationStatus } from '../contract/status.js'
import { emptyTranscript, transcriptText, type Transcript } from '../streams/transcript.js'
import { StateStore, type ExternalStore } from './external-store.js'
import { readLiveText, type LiveTextSource } from './live-text-source.js'
import { onVisibilityChange, pageIsHidden } from './page-visibility.js'

export interface LiveTextState {
  text: string
  /** Steps and tool calls as the live text has them; without steps where it was not read. */
  transcript: Transcript
  /** 'streaming' while a worker has it and its last words are not here yet. */
  status: GenerationStatus | 'streaming'
  /** Why it failed. */
  error?: string
}

export type LiveText = ExternalStore<LiveTextState>

/** Row and message of a cutover come by two shapes: so long one waits for the other. */
const MESSAGE_WITHIN_MS = 5_000

export class LiveTexts {
  readonly #texts = new Map<string, GenerationText>()
  readonly #source: LiveTextSource
  readonly #forget: () => void

  constructor(source: LiveTextSource) {
    this.#source = source
    this.#forget = onVisibilityChange(() => {
      for (const text of this.#texts.values()) text.look()
    })
  }

  of(generationId: string): LiveText {
    let text = this.#texts.get(generationId)
    if (!text)
      this.#texts.set(generationId, (text = new GenerationText(generationId, this.#source)))
    return text
  }

  close(): void {
    this.#forget()
    for (const text of this.#texts.values()) text.close()
  }
}

class GenerationText implements LiveText {
  readonly #id: string
  readonly #source: LiveTextSource
  readonly #store = new StateStore<LiveTextState>({
    text: '',
    transcript: emptyTranscript,
    status: 'pending',
  })
  #unsubscribe: (() => void) | undefined
  /** The reader under way, or that ended of itself, and the attempt it was started for. */
  #reading: { stop: AbortController; attempt: number; ended: boolean } | undefined
  #patience: ReturnType<typeof setTimeout> | undefined
  #messageIsLate = false
  #closed = false

  constructor(id: string, source: LiveTextSource) {
    this.#id = id
    this.#source = source
  }

  readonly get = (): LiveTextState => {
    // Nobody tells a store without subscribers what has changed.
    if (!this.#unsubscribe) this.look()
    return this.#store.get()
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    const unsubscribe = this.#store.subscribe(listener)
    this.#watchRows()
    return () => {
      unsubscribe()
      if (!this.#store.listened) this.#rest()
    }
  }

  close(): void {
    this.#closed = true
    this.#rest()
  }

  /** What the rows say now: what is shown, and whether there is anything to read. */
  look(): void {
    const row = this.#source.collections.generations.get(this.#id)
    if (row && isSettledGeneration(row.status)) return this.#settle(row)
    this.#messageIsLate = false
    const message = this.#message()
    const begun = row !== undefined && row.attempt > 0 && !message
    const wanted = begun && this.#unsubscribe !== undefined && !pageIsHidden() && !this.#closed
    if (!wanted) this.#stopReading()
    else if (!this.#reading || (this.#reading.ended && row.attempt > this.#reading.attempt)) {
      this.#startReading(row.attempt)
    }
    const status = row?.status ?? 'pending'
    const { text, transcript } = this.#store.get()
    const said = message?.content ?? text
    this.#store.set({
      text: said,
      transcript,
      status: status === 'generating' ? 'streaming' : status,
    })
  }

  #settle(row: GenerationRecord): void {
    const message = this.#message()
    // A completed one without a message had nothing to say, or its message is still under way.
    if (row.status === 'completed' && !message && !this.#messageIsLate && this.#unsubscribe) {
      this.#patience ??= setTimeout(() => {
        this.#messageIsLate = true
        this.look()
      }, MESSAGE_WITHIN_MS)
      return
    }
    this.#stopReading()
    const shown = this.#store.get()
    const text = message?.content ?? (row.status === 'completed' ? '' : shown.text)
    this.#store.set({
      text,
      transcript: settledTranscript(shown.transcript, row),
      status: row.status,
      ...(row.error !== null && { error: row.error }),
    })
  }

  #message(): MessageRecord | undefined {
    for (const message of this.#source.collections.messages.values()) {
      if (message.generationId === this.#id && message.role === 'assistant') return message
    }
    return undefined
  }

  #watchRows(): void {
    if (this.#unsubscribe || this.#closed) return
    const { generations, messages } = this.#source.collections
    const rows = generations.subscribeChanges((changes) => {
      if (changes.some(({ key }) => key === this.#id)) this.look()
    })
    const answers = messages.subscribeChanges((changes) => {
      if (changes.some(({ value }) => value.generationId === this.#id)) this.look()
    })
    this.#unsubscribe = () => {
      rows.unsubscribe()
      answers.unsubscribe()
    }
    this.look()
  }

  #rest(): void {
    this.#unsubscribe?.()
    this.#unsubscribe = undefined
    this.#stopReading()
  }

  #stopReading(): void {
    clearTimeout(this.#patience)
    this.#patience = undefined
    this.#reading?.stop.abort()
    this.#reading = undefined
  }

  #startReading(attempt: number): void {
    this.#reading?.stop.abort()
    const reading = { stop: new AbortController(), attempt, ended: false }
    this.#reading = reading
    void this.#read(reading.stop.signal).finally(() => {
      reading.ended = true
      // Another attempt may have begun while this one's last words were read.
      if (this.#reading === reading) this.look()
    })
  }

  async #read(signal: AbortSignal): Promise<void> {
    for await (const { transcript } of readLiveText(this.#source, this.#id, signal)) {
      if (signal.aborted) return
      const { status } = this.#store.get()
      this.#store.set({ text: transcriptText(transcript), transcript, status })
    }
  }
}

/** The one that was shown, ended as the row has ended. */
function settledTranscript(shown: Transcript, row: GenerationRecord): Transcript {
  const status = row.status as Transcript['status']
  if (shown.status === status) return shown
  return { ...shown, status, ...(row.error !== null && { error: row.error }) }
}
