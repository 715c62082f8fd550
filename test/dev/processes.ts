/** Processes as the tests of the stack see them: owners to be killed, and postmasters to be gone. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { vi } from 'vitest'
import { commandLine, isAlive } from '../../src/dev/process-identity.js'

const REPO = fileURLToPath(new URL('../..', import.meta.url))

/** Runs a TypeScript file of this repository. */
export function spawnScript(script: string, ...args: string[]) {
  const child = spawn(process.execPath, ['--import', 'tsx', script, ...args], {
    cwd: REPO,
    env: { ...process.env, DATABASE_URL: '', STREAMS_URL: '', ELECTRIC_URL: '' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const exited = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
  return {
    child,
    exited,
    lines: createInterface({ input: child.stdout }),
    stderr: text(child.stderr),
  }
}

export async function spawnOwner(dataDir: string) {
  const owner = spawnScript('test/dev/stack-owner.ts', dataDir)
  const failed = owner.exited.then(async () => {
    throw new Error(`the owner of a stack did not start: ${await owner.stderr}`)
  })
  const [line] = (await Promise.race([once(owner.lines, 'line'), failed])) as [string]
  failed.catch(() => {}) // From here on its end is what the tests want.
  return { ...owner, stack: JSON.parse(line) as { databaseUrl: string } }
}

export function pidFileOf(dataDir: string): string {
  return join(dataDir, 'db', 'postgres', 'postmaster.pid')
}

export async function postmasterPid(dataDir: string): Promise<number> {
  return Number((await readFile(pidFileOf(dataDir), 'utf8')).split('\n')[0])
}

/** Processes that are not our children send us no signal when they end: this has to look. */
export async function waitUntilGone(pid: number): Promise<void> {
  const gone = async () => {
    if (await isAlive(pid)) throw new Error(`process ${pid} is still there`)
  }
  await vi.waitFor(gone, { timeout: 15_000, interval: 20 })
}

/** The shell that stops this postmaster when its owner dies. Linux only, as it looks through /proc. */
export async function watchdogOf(postmaster: number): Promise<number> {
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry)) continue
    const command = await commandLine(Number(entry))
    if (command.at(-1) === String(postmaster) && command.includes('read _; kill -INT "$1"')) {
      return Number(entry)
    }
  }
  throw new Error(`postmaster ${postmaster} has no watchdog`)
}
