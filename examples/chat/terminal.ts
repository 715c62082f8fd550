/**
 * `npm run demo`: a chat in the browser and in the terminal. This process starts the development stack, the
 * page's web server, and two worker processes (one where nobody can be killed); for the terminal it writes a
 * message row for each question, and reads each answer from the durable stream.
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
  const question = wish.ask ?? (await questionOnStdin(wish))
  if (question?.trim() === '') throw new UsageError(`There is no question.\n\n${USAGE}`)
  stopOnSignals()
  const { dataDir, port, kill } = wish
  const demo = await startDemo({
    workers: kill || question === undefined ? 2 : 1,
    screen,
    ...(question === undefined && { page: { port } }),
    ...(dataDir !== undefined && { dataDir }),
  })
  try {
    stopping.signal.throwIfAborted()
    if (wish.page) return await untilStopped()
    const { id: sessionId } = await createSession(demo.db, { title: 'terminal' })
    if (demo.pageUrl !== undefined) {
      screen.note(`this conversation in the browser: ${demo.pageUrl}/?session=${sessionId}`)
    }
    const answer = (asked: string) => answerTo(demo, sessionId, wish, asked)
    if (question !== undefined) return (await answer(question)) ? 0 : 1
    await converse(answer, stopping)
    return 0
  } finally {
    screen.progress('')
    await demo.stop()
  }
}

/** Undefined: there is somebody at the terminal, or only the page is wished for. */
async function questionOnStdin({ page }: Wish): Promise<string | undefined> {
  return page || process.stdin.isTTY ? undefined : text(process.stdin)
}

/** @returns the exit code, which the signal's takes the place of. */
function untilStopped(): Promise<number> {
  const { signal } = stopping
  // A promise alone keeps no process alive, but the web server does.
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(0)
    signal.addEventListener('abort', () => resolve(0))
  })
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
