/**
 * Child processes of a bench, from the bench's side. A child gets its configuration as an argument, tells
 * notes and takes orders over the IPC channel, and ends when that closes: nothing outlives the bench.
 */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { AiDbError } from '../src/errors.js'
import type { ChildConfigs, Note, NoteOf, Order } from './messages.js'

export interface Child extends AsyncDisposable {
  readonly pid: number
  order(order: Order): void
  onNote(listener: (note: Note) => void): () => void
  /** The next note of this type that passes, from now on. */
  next<Type extends Note['type']>(
    type: Type,
    passes?: (note: NoteOf<Type>) => boolean,
  ): Promise<NoteOf<Type>>
  /** kill -9; resolves when it is gone. */
  kill(): Promise<void>
  /** Asks it to stop its work and leave; resolves when it is gone. */
  stop(): Promise<void>
}

/** A note that takes longer than this will not come. */
const PATIENCE_MS = 60_000
const STOP_WITHIN_MS = 10_000

/**
 * Starts `children/<name>.ts` and waits until it has said that it is ready. BENCH_NODE_FLAGS are flags of Node
 * for all children, such as `--cpu-prof`.
 */
export async function startChild<Name extends keyof ChildConfigs>(
  name: Name,
  config: ChildConfigs[Name],
): Promise<Child> {
  const file = fileURLToPath(new URL(`children/${name}.ts`, import.meta.url))
  const forked = fork(file, [JSON.stringify(config)], {
    execArgv: [
      '--import',
      import.meta.resolve('tsx'),
      ...(process.env.BENCH_NODE_FLAGS?.split(' ') ?? []),
    ],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const child = new ForkedChild(name, forked)
  await child.next('ready')
  return child
}

class ForkedChild implements Child {
  readonly #name: string
  readonly #forked: ChildProcess
  readonly #gone: Promise<unknown>
  readonly #listeners = new Set<(note: Note) => void>()
  #over = false

  constructor(name: string, forked: ChildProcess) {
    this.#name = name
    this.#forked = forked
    this.#gone = once(forked, 'exit').then(() => (this.#over = true))
    forked.on('message', (note) => {
      for (const listener of this.#listeners) listener(note as Note)
    })
  }

  get pid(): number {
    return this.#forked.pid!
  }

  order(order: Order): void {
    this.#forked.send(order)
  }

  onNote(listener: (note: Note) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  next<Type extends Note['type']>(
    type: Type,
    passes: (note: NoteOf<Type>) => boolean = () => true,
  ): Promise<NoteOf<Type>> {
    return new Promise((resolve, reject) => {
      const finish = () => {
        clearTimeout(timer)
        stopListening()
        this.#forked.off('exit', onExit)
      }
      const fail = (what: string) => {
        finish()
        reject(new AiDbError('TIMEOUT', `bench: child '${this.#name}' ${what} ('${type}')`))
      }
      const timer = setTimeout(() => fail('did not answer in time'), PATIENCE_MS)
      const onExit = () => fail('ended before it answered')
      this.#forked.once('exit', onExit)
      const stopListening = this.onNote((note) => {
        if (note.type !== type || !passes(note as NoteOf<Type>)) return
        finish()
        resolve(note as NoteOf<Type>)
      })
    })
  }

  async kill(): Promise<void> {
    this.#forked.kill('SIGKILL')
    await this.#gone
  }

  async stop(): Promise<void> {
    if (this.#over) return
    if (this.#forked.connected) this.order({ type: 'stop' })
    const timer = setTimeout(() => this.#forked.kill('SIGKILL'), STOP_WITHIN_MS)
    await this.#gone
    clearTimeout(timer)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }
}
