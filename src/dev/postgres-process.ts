/**
 * One running postmaster: spawned, awaited until it takes connections, stopped.
 *
 * It runs in a process group of its own, so that Ctrl-C reaches only its owner, who may still need
 * the database to finish. It does not outlive that owner: a one-line shell holds the other end of a
 * pipe, and when the owner is gone, even by kill -9, the pipe closes and the shell stops Postgres.
 * (Where that shell is killed too, the next start finds the orphan: see postmaster-orphan.ts.)
 */
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { PostgresUser } from './postgres-user.js'

export interface Launch {
  program: string
  args: readonly string[]
  user: PostgresUser | undefined
  onLog: (line: string) => void
}

export interface RunningPostgres {
  pid: number
  /** Resolves when the postmaster has exited, whoever asked for it. */
  exited: Promise<void>
  /** Idempotent. Ends open connections, then waits for the exit. */
  stop(): Promise<void>
}

/** Thrown by `launchPostgres` with what Postgres said last; the caller words the cure. */
export class PostgresExit extends Error {
  constructor(
    what: string,
    readonly lastLines: readonly string[],
    options?: ErrorOptions,
  ) {
    super(what, options)
  }
}

const READY = 'database system is ready to accept connections'
/** Lines of Postgres' log that an error carries: enough for a FATAL with its detail and hint. */
const KEPT_LINES = 12
/** A fast shutdown waits for replication clients to catch up; one that hangs would hold it for ever. */
const FAST_SHUTDOWN_MS = 5_000

/** Postgres gets no more of our environment than this: neither secrets nor stray PG* settings. */
export const POSTGRES_ENV = { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' }

export async function launchPostgres(launch: Launch): Promise<RunningPostgres> {
  const child = spawn(launch.program, launch.args, {
    ...launch.user,
    cwd: '/',
    env: POSTGRES_ENV,
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const exited = once(child, 'exit').then(ignore, ignore)
  await readyOrExit(child, launch.onLog)
  const pid = child.pid!
  const releaseWatchdog = watchOwner(pid, launch.user)
  void exited.then(releaseWatchdog)
  let stopping: Promise<void> | undefined
  return { pid, exited, stop: () => (stopping ??= stop(child, exited)) }
}

function readyOrExit(child: ChildProcess, onLog: (line: string) => void): Promise<void> {
  const lastLines: string[] = []
  return new Promise((resolve, reject) => {
    child.once('error', (cause) => reject(new PostgresExit(cause.message, [], { cause })))
    // 'close' and not 'exit': its last words have been read by then.
    child.once('close', (code, signal) =>
      reject(new PostgresExit(`Postgres exited with ${signal ?? `code ${code}`}`, lastLines)),
    )
    createInterface({ input: child.stderr! }).on('line', (line) => {
      lastLines.push(line)
      if (lastLines.length > KEPT_LINES) lastLines.shift()
      onLog(line)
      if (line.includes(READY)) resolve()
    })
  })
}

/** Returns what must be called once the postmaster is gone, before its pid can belong to another. */
function watchOwner(pid: number, user: PostgresUser | undefined): () => void {
  const watchdog = spawn('/bin/sh', ['-c', 'read _; kill -INT "$1"', 'sh', String(pid)], {
    ...user,
    cwd: '/',
    env: POSTGRES_ENV,
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  watchdog.on('error', ignore)
  watchdog.unref()
  return () => {
    watchdog.kill('SIGKILL')
    watchdog.stdin?.destroy()
  }
}

async function stop(child: ChildProcess, exited: Promise<void>): Promise<void> {
  child.kill('SIGINT')
  const impatient = setTimeout(() => child.kill('SIGQUIT'), FAST_SHUTDOWN_MS)
  await exited
  clearTimeout(impatient)
}

function ignore(): void {}
