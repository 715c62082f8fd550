/**
 * `npm run demo`: a chat in the terminal. This process starts the development stack and one worker process
 * (two with --kill), writes a message row for each question, and reads each answer from the durable stream.
 *
 *     stdin ─► message row ─trigger─► generation row ◄─claim── worker process ──► durable stream ─► stdout
 *
 * When it ends, all it started has ended before it, whichever way it was told to.
 */
import { text } from 'node:stream/consumers'
import { createSession } from '../../src/server.js'
import { readWish, UsageError, USAGE, type Wish } from './arguments.js'
import { converse } from './conversation.js'
import { startDemo, type Demo } from './demo.js'
import { Screen } from './screen.js'
import { reportKilledTurn, reportTurn } from './turn-report.js'
import { takeTurn } from './turn.js'

const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const

const screen = new Screen()
const stopping = new AbortController()

void main(process.argv.slice(2))
  .catch((thrown: unknown) => {
    if (stopping.signal.aborted) return 1
    screen.note(thrown instanceof Error ? thrown.message : String(thrown))
    return thrown instanceof UsageError ? 2 : 1
  })
  .then((code) => {
    process.exitCode = (stopping.signal.reason as number | undefined) ?? code
  })

/** @returns the exit code. */
async function main(argv: string[]): Promise<number> {
  const wish = readWish(argv)
  if (wish.help) {
    console.log(USAGE)
    return 0
  }
  const question = wish.ask ?? (process.stdin.isTTY ? undefined : await text(process.stdin))
  if (question?.trim() === '') throw new UsageError(`There is no question.\n\n${USAGE}`)
  stopOnSignals()
  const demo = await startDemo({ ...wish, workers: wish.kill ? 2 : 1, screen })
  try {
    stopping.signal.throwIfAborted()
    const { id: sessionId } = await createSession(demo.db, { title: 'terminal' })
    const answer = (asked: string) => answerTo(demo, sessionId, wish, asked)
    if (question !== undefined) return (await answer(question)) ? 0 : 1
    await converse(answer, stopping)
    return 0
  } finally {
    screen.progress('')
    await demo.stop()
  }
}

/** One turn, shown and reported. @returns whether its generation completed. */
async function answerTo(
  demo: Demo,
  sessionId: string,
  { kill, json }: Wish,
  question: string,
): Promise<boolean> {
  const turn = await takeTurn(demo, { sessionId, question, kill, signal: stopping.signal })
  if (turn.error !== undefined) screen.note(`The generation ${turn.status}: ${turn.error}`)
  if (kill && !turn.reading.killed) screen.note('Nothing was killed: the answer was too short.')
  if (json) {
    const report = await (kill ? reportKilledTurn : reportTurn)(demo, turn)
    screen.text(`${JSON.stringify(report)}\n`)
  }
  return turn.status === 'completed'
}

/** The first signal stops everything in order; the abort's reason is the exit code. */
function stopOnSignals(): void {
  for (const [name, code] of Object.entries(SIGNALS)) {
    process.on(name, () => stopping.abort(code))
  }
  // The reader has left (`| head`): as a signal would.
  process.stdout.on('error', () => stopping.abort(1))
}
