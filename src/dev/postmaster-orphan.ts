/**
 * What a dead owner leaves in a data directory: `postmaster.pid`, and perhaps the Postgres that
 * wrote it. Called at every start, with the stack's lock held, so no live stack owns this Postgres.
 *
 * The recorded pid is one of three: dead, which leaves a stale file that could make Postgres refuse
 * to start; a Postgres on this very directory, which is an orphan to be stopped; or another program
 * that got the same number since, which is stale again and not to be touched.
 */
import { readFile, realpath, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { devStackError } from './dev-stack-error.js'
import { commandLine, isAlive, workingDirectory } from './process-identity.js'

/** How long an orphan gets for each signal. A fast shutdown writes a checkpoint first. */
const PATIENCE_MS = 8_000
const POLL_MS = 20

export async function clearOrphan(
  clusterDir: string,
  onLog: (line: string) => void,
): Promise<void> {
  const pidFile = join(clusterDir, 'postmaster.pid')
  const pid = Number((await readFile(pidFile, 'utf8').catch(() => '')).split('\n')[0])
  if (await isPostgresOn(pid, clusterDir)) {
    onLog(`stopping Postgres (pid ${pid}), which outlived the process that had started it`)
    await stopOrphan(pid, clusterDir)
  }
  await rm(pidFile, { force: true })
}

async function isPostgresOn(pid: number, clusterDir: string): Promise<boolean> {
  if (!(await isAlive(pid))) return false
  const [program = '', ...args] = await commandLine(pid)
  if (basename(program) !== 'postgres') return false
  const cluster = await realpath(clusterDir)
  // A postmaster works in its data directory; the argument serves where that cannot be read.
  return (await workingDirectory(pid)) === cluster || args.includes(clusterDir)
}

async function stopOrphan(pid: number, clusterDir: string): Promise<void> {
  // SIGINT is Postgres' fast shutdown. SIGQUIT, after a client that does not let go, loses nothing
  // either: the next start replays the WAL.
  for (const signal of ['SIGINT', 'SIGQUIT'] as const) {
    if (!send(pid, signal)) break
    const giveUpAt = Date.now() + PATIENCE_MS
    while (Date.now() < giveUpAt) {
      if (!(await isAlive(pid))) return
      await delay(POLL_MS)
    }
  }
  throw devStackError(
    `Postgres (pid ${pid}) still runs on ${clusterDir}, left by a process that is gone, and could ` +
      `not be stopped. Stop it with: kill -QUIT ${pid}`,
  )
}

/** False when this user may not signal it. A process that is gone already counts as signalled. */
function send(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal)
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code === 'ESRCH'
  }
}
