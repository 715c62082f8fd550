/**
 * Asks the row when the log is silent.
 *
 * A worker can die after its generation settled and before its stream was closed; then the log never
 * says so, and a reader of the log alone would show "thinking" for ever.
 */
import type { LogEvent } from './stream-log.js'
import type { DoneItem } from './transcript-items.js'

/** The row's end of the generation, or nothing while it goes on. */
export type AskSettled = () => Promise<DoneItem | undefined>

export type WatchedEvent = LogEvent | { kind: 'settled'; done: DoneItem }

interface Verdict {
  kind: 'verdict'
  done: DoneItem | undefined
}

/** The log's events; and, where it is missing or silent for `everyMs`, the row's verdict. */
export async function* watchSettled(
  events: AsyncGenerator<LogEvent, void>,
  settled: AskSettled | undefined,
  everyMs: number,
): AsyncGenerator<WatchedEvent, void> {
  if (!settled) return yield* events
  const ask = (): Promise<Verdict> =>
    Promise.resolve()
      .then(settled)
      .catch(() => undefined)
      .then((done) => ({ kind: 'verdict', done }))
  let asking: Promise<Verdict> | undefined
  let next = events.next()
  for (;;) {
    const first = await (asking ? Promise.race([next, asking]) : orSilence(next, everyMs))
    if (first === undefined) asking = ask()
    else if ('kind' in first) {
      asking = undefined
      if (first.done) yield { kind: 'settled', done: first.done }
    } else if (first.done) return
    else {
      // Text that arrives while the row is asked goes before the answer.
      asking = first.value.kind === 'gone' ? ask() : undefined
      next = events.next()
      yield first.value
    }
  }
}

/** What `promise` brings, or undefined if it takes longer than `ms`. */
async function orSilence<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const silence = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms)
  })
  try {
    return await Promise.race([promise, silence])
  } finally {
    clearTimeout(timer)
  }
}
