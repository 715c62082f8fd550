/**
 * The parent's side of `child-worker.ts`: starts such processes, hears them, kills, stops and continues them.
 *
 * The script is compiled once for all of them: a process that compiles for itself takes four times the CPU to start,
 * and the tests kill dozens.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { renameSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { buildSync } from 'esbuild'
import type { WorkerEvent } from '../../src/runner/events.js'
import type { Order, ServeConfig, Told } from './child-worker.js'
import { EventLog } from './poll-until.js'

const SOURCE = fileURLToPath(new URL('./child-worker.ts', import.meta.url))
// Below node_modules, so that it finds its packages.
const COMPILED = fileURLToPath(
  new URL('../../node_modules/.cache/child-worker.mjs', import.meta.url),
)

let compiled = false

function compiledScript(): string {
  if (compiled) return COMPILED
  const outfile = `${COMPILED}.${process.pid}`
  const shape = { bundle: true, platform: 'node', format: 'esm', packages: 'external' } as const
  buildSync({ ...shape, entryPoints: [SOURCE], outfile, sourcemap: 'inline', logLevel: 'error' })
  // Test files do this side by side.
  renameSync(outfile, COMPILED)
  compiled = true
  return COMPILED
}

export interface Serving {
  readonly workerId: string
  readonly events: EventLog<WorkerEvent>
  /** Resolves when the process has reached an armed fault of action `report` or `hold`. */
  reached(point: string, nth?: number): Promise<{ at: number }>
  /** Lets go of what an armed `hold` holds. */
  release(): void
  /** Stops this worker gracefully; the process stays. */
  stop(): Promise<void>
}

export interface WorkerProcess extends AsyncDisposable {
  readonly pid: number
  /** Resolves with what ended it, and when (`performance.now()`). */
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null; at: number }>
  /** Creates a worker or an executor in it. Resolves when that is registered. */
  serve(config: ServeConfig): Promise<Serving>
  signal(name: NodeJS.Signals): void
  /** SIGKILL, and waits for the end. Idempotent. */
  kill(): Promise<void>
}

/** Starts a process and waits until it can serve. Kill or dispose it. */
export async function spawnWorkerProcess(): Promise<WorkerProcess> {
  const child = fork(compiledScript(), {
    execArgv: ['--enable-source-maps'],
    silent: true,
  })
  child.stdout!.resume()
  child.stderr!.on('data', (bytes: Buffer) => process.stderr.write(bytes))
  const told = new EventLog<Told>()
  child.on('message', (message) => told.push(message as Told))
  const exited = once(child, 'exit').then((end) => {
    const [code, signal] = end as [number | null, NodeJS.Signals | null]
    told.close(new Error(`the worker process ended: ${signal ?? code}`))
    return { code, signal, at: performance.now() }
  })
  const order = (message: Order) => child.connected && child.send(message)
  let nextId = 1
  await told.untilType('ready')
  const kill = async () => {
    child.kill('SIGKILL')
    await exited
  }
  return {
    pid: child.pid!,
    exited,
    serve: (config) => serve(told, order, nextId++, config),
    signal: (name) => void child.kill(name),
    kill,
    [Symbol.asyncDispose]: kill,
  }
}

async function serve(
  told: EventLog<Told>,
  order: (message: Order) => void,
  id: number,
  config: ServeConfig,
): Promise<Serving> {
  const events = new EventLog<WorkerEvent>()
  const forward = told.push.bind(told)
  told.push = (message) => {
    if (message.type === 'event' && message.id === id) events.push(message.event)
    forward(message)
  }
  const mine = (type: Told['type']) => (message: Told) =>
    message.type === type && 'id' in message && message.id === id
  order({ type: 'serve', id, config })
  const answer = await told.until(
    'a worker process serving',
    (message) => mine('serving')(message) || mine('refused')(message),
  )
  if (answer.type !== 'serving') throw new Error(JSON.stringify(answer))
  return {
    workerId: answer.workerId,
    events,
    reached: (point, nth = 1) =>
      told.until(
        `fault point ${point} no. ${nth}`,
        (message): message is Extract<Told, { type: 'fault' }> =>
          mine('fault')(message) &&
          message.type === 'fault' &&
          message.point === point &&
          message.nth === nth,
      ),
    release: () => order({ type: 'release', id }),
    stop: async () => {
      order({ type: 'stop', id })
      await told.until('a worker process stopping', mine('left'))
    },
  }
}
