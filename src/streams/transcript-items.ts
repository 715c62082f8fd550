/**
 * The items of a generation's live log, as they lie on the wire: one JSON value each, in order.
 *
 * The log is a hint (rows are the truth), but a complete one: folding it from its first item gives the
 * whole transcript (`transcript.ts`). Offsets into text are UTF-16 units, JavaScript's own.
 */

export type TranscriptItem =
  /**
   * A worker began, or took over, at `step`. It keeps `keep` units of that step's text and the step's
   * settled tool calls; its other calls and everything of later steps is dropped. First of every attempt.
   */
  | { type: 'attempt'; attempt: number; step: number; keep: number }
  | { type: 'text'; step: number; delta: string }
  | { type: 'thinking'; step: number; delta: string }
  | { type: 'tool-call-start'; step: number; id: string; name: string }
  | { type: 'tool-call-args'; step: number; id: string; delta: string }
  | { type: 'tool-call-end'; step: number; id: string }
  | {
      type: 'tool-result'
      step: number
      id: string
      name: string
      status: SettledStatus
      result?: unknown
      error?: string
    }
  | { type: 'step-end'; step: number; finishReason?: string }
  | { type: 'done'; status: SettledStatus; error?: string }

export type SettledStatus = 'completed' | 'failed' | 'cancelled'

export type TranscriptItemOf<Type extends TranscriptItem['type']> = Extract<
  TranscriptItem,
  { type: Type }
>

export type DoneItem = TranscriptItemOf<'done'>

/** One item in place of two neighbours, where both are deltas of the same thing. */
function merged(before: TranscriptItem | undefined, item: TranscriptItem) {
  if (before === undefined || before.type !== item.type) return undefined
  switch (item.type) {
    case 'text':
    case 'thinking': {
      const head = before as typeof item
      return head.step === item.step ? { ...item, delta: head.delta + item.delta } : undefined
    }
    case 'tool-call-args': {
      const head = before as typeof item
      const same = head.step === item.step && head.id === item.id
      return same ? { ...item, delta: head.delta + item.delta } : undefined
    }
    default:
      return undefined
  }
}

/** Puts an item at the end of a list, into the last one where it continues that. Changes `items`. */
export function pushCoalesced(items: TranscriptItem[], item: TranscriptItem): void {
  const one = merged(items.at(-1), item)
  if (one === undefined) items.push(item)
  else items[items.length - 1] = one
}

/** The same transcript in fewer items: neighbouring deltas of one text, thinking or call become one. */
export function coalesce(items: readonly TranscriptItem[]): TranscriptItem[] {
  const few: TranscriptItem[] = []
  for (const item of items) pushCoalesced(few, item)
  return few
}

/** About how many characters an item is on the wire, without the cost of writing it out. */
export function itemChars(item: TranscriptItem): number {
  return 'delta' in item ? item.delta.length : JSON.stringify(item).length
}
