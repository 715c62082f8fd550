/** What a viewer is told: each change of a transcript as it shows, and nothing where it looks the same. */
import {
  emptyTranscript,
  transcriptText,
  type Transcript,
  type TranscriptItem,
} from './transcript.js'

export interface TranscriptUpdate {
  readonly transcript: Transcript
  /** The items that led here from the last update. */
  readonly batch: readonly TranscriptItem[]
  /** What `transcriptText` gained at its end since the last update; '' if it was rewritten. */
  readonly appended: string
  /** The text is no longer what it was with something added: show it anew. */
  readonly rewritten: boolean
}

export class TranscriptView {
  #shown: Transcript = emptyTranscript
  #text = ''
  #batch: TranscriptItem[] = []

  get shown(): Transcript {
    return this.#shown
  }

  /** The log is read from its start again. */
  forget(): void {
    this.#batch = []
  }

  /** Items that are not to be seen before what follows them. */
  hold(items: readonly TranscriptItem[]): undefined {
    this.#batch.push(...items)
  }

  /** The update that leads from what was shown to `transcript`, if one can see a difference. */
  show(transcript: Transcript, items: readonly TranscriptItem[]): TranscriptUpdate | undefined {
    this.hold(items)
    if (looksSame(this.#shown, transcript, this.#batch)) return undefined
    const batch = this.#batch
    const text = transcriptText(transcript)
    const rewritten = !text.startsWith(this.#text)
    const appended = rewritten ? '' : text.slice(this.#text.length)
    this.#batch = []
    this.#shown = transcript
    this.#text = text
    return { transcript, batch, appended, rewritten }
  }
}

/** Only an attempt's beginning can lead back to where one was; else a new value is a new look. */
function looksSame(a: Transcript, b: Transcript, batch: readonly TranscriptItem[]): boolean {
  if (a === b) return true
  const mayRepeat = batch.some((item) => item.type === 'attempt')
  return mayRepeat && JSON.stringify(a) === JSON.stringify(b)
}
