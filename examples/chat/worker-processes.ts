/**
 * The worker processes of one terminal: forked, told where to work, replaced when one dies, and stopped.
 *
 * What they report about a generation is kept until it is asked for. The answer itself does not come this
 * way: it comes from the durable stream, and would if the workers were on another machine.
 */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { TSX } from './tsx-loader.js'
import type { WorkerOrder, WorkerReport } from './worker-report.js'

export interface WorkerProcess {
  /** For people: `worker 1 (pid 4242)`. */
  readonly name: string
  readonly child: ChildProcess
  readonly ready: Promise<void>
  readonly exited: Promise<unknown>
}

interface GenerationLog {
  holder?: WorkerProcess
  attempt: number
  toolExecutions: number
  roundTrips: Promise<number>
  settled: (roundTrips: number) => void
}

interface Places {
  databaseUrl: string
  streamsUrl: string
  /** @default 'ai_db' */
  schema?: string
}

const SCRIPT = fileURLToPath(new URL('worker.ts', import.meta.url))
/** A worker that does not leave by then is killed: nothing is lost by that. */
const STOP_MS = 4_000
/** How long the others work alone. */
const REPLACE_AFTER_MS = 1_000

export class WorkerProcesses {
  /** Told of every report, after it is kept. */
  onReport: (worker: WorkerProcess, report: WorkerReport) => void = () => {}
  readonly #alive = new Set<WorkerProcess>()
  readonly #log = new Map<string, GenerationLog>()
  #places: Places | undefined
  #forked = 0
  #stopping = false

  constructor(count: number) {
    while (this.#forked < count) this.#fork()
  }

  /** Tells them where to work. */
  start(places: Places): void {
    this.#places = places
    for (const worker of this.#alive) this.#order(worker, { type: 'start', ...places })
  }

  /** Resolves when every one of them can claim work, replacements included; rejects if one cannot start. */
  async ready(): Promise<void> {
    await Promise.all([...this.#alive].map((worker) => worker.ready))
  }

  /** Who claimed it last, and lives. */
  holderOf(generationId: string): WorkerProcess | undefined {
    const { holder } = this.#logOf(generationId)
    return holder !== undefined && this.#alive.has(holder) ? holder : undefined
  }

  /** How often a tool's function was run for it, over all processes. */
  toolExecutions(generationId: string): number {
    return this.#logOf(generationId).toolExecutions
  }

  /** SQL statements of the process that settled it; null when that was not one of these. */
  async roundTrips(generationId: string): Promise<number | null> {
    const { holder, roundTrips } = this.#logOf(generationId)
    if (holder === undefined) return null
    return Promise.race([roundTrips, holder.exited.then(() => null)])
  }

  async stop(): Promise<void> {
    this.#stopping = true
    const all = [...this.#alive]
    for (const worker of all) this.#order(worker, { type: 'stop' })
    const lostPatience = setTimeout(() => {
      for (const worker of all) worker.child.kill('SIGKILL')
    }, STOP_MS)
    await Promise.all(all.map((worker) => worker.exited))
    clearTimeout(lostPatience)
  }

  #fork(): void {
    this.#forked += 1
    // Its output must not mix with the answer.
    const child = fork(SCRIPT, { execArgv: [...TSX], stdio: ['ignore', 2, 2, 'ipc'] })
    const name = `worker ${this.#forked} (pid ${child.pid})`
    const exited = once(child, 'exit').catch(() => {})
    const ready = untilReady(name, child, exited)
    const worker: WorkerProcess = { name, child, ready, exited }
    this.#alive.add(worker)
    child.on('message', (report: WorkerReport) => this.#keep(worker, report))
    void exited.then(async () => {
      this.#alive.delete(worker)
      // One that never worked would die again.
      const worked = await ready.then(() => true).catch(() => false)
      if (worked) this.#replace()
    })
    if (this.#places !== undefined) this.#order(worker, { type: 'start', ...this.#places })
  }

  /** Starting one takes a core for a while, and whoever takes the work over needs it more. */
  #replace(): void {
    const afterMs = this.#alive.size === 0 ? 0 : REPLACE_AFTER_MS
    setTimeout(() => this.#stopping || this.#fork(), afterMs).unref()
  }

  #order({ child }: WorkerProcess, order: WorkerOrder): void {
    // A channel that closes under the order belongs to one that is gone, and that shows by itself.
    if (child.connected) child.send(order, () => {})
  }

  #keep(worker: WorkerProcess, report: WorkerReport): void {
    if ('generationId' in report) {
      const log = this.#logOf(report.generationId)
      if (report.type === 'claimed') Object.assign(log, { holder: worker, attempt: report.attempt })
      if (report.type === 'tool-execution') log.toolExecutions += 1
      if (report.type === 'settled') log.settled(report.roundTrips)
    }
    this.onReport(worker, report)
  }

  #logOf(generationId: string): GenerationLog {
    const known = this.#log.get(generationId)
    if (known !== undefined) return known
    let settled!: (roundTrips: number) => void
    const roundTrips = new Promise<number>((resolve) => (settled = resolve))
    const log = { attempt: 0, toolExecutions: 0, roundTrips, settled }
    this.#log.set(generationId, log)
    return log
  }
}

function untilReady(name: string, child: ChildProcess, exited: Promise<unknown>): Promise<void> {
  const ready = new Promise<void>((resolve, reject) => {
    child.on('message', (report: WorkerReport) => {
      if (report.type === 'ready') resolve()
      if (report.type === 'unable') reject(new Error(`${name}: ${report.message}`))
    })
    void exited.then(() => reject(new Error(`${name} ended before it could work.`)))
  })
  ready.catch(() => {}) // whoever waits for it is told
  return ready
}
