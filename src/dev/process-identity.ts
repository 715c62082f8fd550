/**
 * Who a recorded pid is today. A pid alone proves nothing after a kill -9: the number may belong to
 * another program by now, or to a zombie nobody has reaped (usual in containers without an init),
 * which still answers `kill(pid, 0)`. So a process is named by its pid and the moment it started.
 *
 * Linux is read from /proc, because slim images have no `ps`; elsewhere `ps` is asked.
 */
import { execFile } from 'node:child_process'
import { readFile, readlink } from 'node:fs/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)
const onLinux = process.platform === 'linux'

/** An opaque stamp of the moment `pid` started; undefined when no live process has this pid. */
export async function processStart(pid: number): Promise<string | undefined> {
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined
  return onLinux ? startFromProc(pid) : startFromPs(pid)
}

export async function isAlive(pid: number): Promise<boolean> {
  return (await processStart(pid)) !== undefined
}

/** The argument vector of `pid`; empty when it is gone or hidden from this user. */
export async function commandLine(pid: number): Promise<string[]> {
  if (onLinux) {
    const raw = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
    return raw.split('\0').filter((argument) => argument !== '')
  }
  const args = await ps(pid, 'args=')
  return args === undefined ? [] : args.split(/\s+/)
}

/** The directory `pid` works in; undefined where the platform or its permissions do not tell. */
export async function workingDirectory(pid: number): Promise<string | undefined> {
  return onLinux ? readlink(`/proc/${pid}/cwd`).catch(() => undefined) : undefined
}

async function startFromProc(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined)
  if (stat === undefined) return undefined
  // The second field is the command in parentheses and may hold anything, so count from its end.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state, startTicks] = [fields[0], fields[19]]
  if (state === 'Z' || state === 'X') return undefined
  return startTicks
}

async function startFromPs(pid: number): Promise<string | undefined> {
  const line = await ps(pid, 'stat=,lstart=')
  return line === undefined || line.startsWith('Z') ? undefined : line.replace(/^\S+\s+/, '')
}

async function ps(pid: number, format: string): Promise<string | undefined> {
  const columns = format.split(',').flatMap((column) => ['-o', column])
  const { stdout } = await run('ps', ['-p', String(pid), ...columns]).catch(() => ({ stdout: '' }))
  return stdout.trim() === '' ? undefined : stdout.trim()
}
