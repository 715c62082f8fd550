/**
 * Makes a cluster's files once. initdb works in a folder of another name that is renamed when it is
 * done: a start killed half-way leaves nothing that a later start would take for a database.
 *
 * The superuser's password is random and kept beside the data, readable by Postgres' user alone: on
 * a machine with several people a trusting superuser on localhost would be a shell for all of them.
 */
import { execFile } from 'node:child_process'
import { chown, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { devStackError, USE_YOUR_OWN_POSTGRES } from './dev-stack-error.js'
import type { PostgresBinaries } from './postgres-binaries.js'
import { POSTGRES_ENV } from './postgres-process.js'
import type { PostgresUser } from './postgres-user.js'

export interface Cluster extends PostgresBinaries {
  dir: string
  passwordFile: string
  user: PostgresUser | undefined
}

/** The major version whose files the embedded binaries read. */
const MAJOR = '18'

const run = promisify(execFile)

export async function initCluster(
  cluster: Cluster,
  password: string,
  onLog: (line: string) => void,
): Promise<void> {
  const made = await majorOf(cluster)
  if (made === MAJOR) return
  if (made !== undefined) {
    throw devStackError(
      `${cluster.dir} holds the files of PostgreSQL ${made}, and the embedded one is ${MAJOR}. ` +
        'Move that folder away, or choose another with dataDir (--data-dir).',
    )
  }
  onLog(`creating a database in ${cluster.dir}`)
  const unfinished = `${cluster.dir}.unfinished`
  await rm(unfinished, { recursive: true, force: true })
  await writePassword(cluster, password)
  await runInitdb(cluster, unfinished, onLog)
  await rename(unfinished, cluster.dir)
}

async function majorOf(cluster: Cluster): Promise<string | undefined> {
  try {
    return (await readFile(join(cluster.dir, 'PG_VERSION'), 'utf8')).trim()
  } catch (thrown) {
    const { code, message } = thrown as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    throw devStackError(
      `The files of Postgres cannot be read: ${message}. Start the stack as the user who made ` +
        'them, or choose another directory with dataDir (--data-dir).',
      thrown,
    )
  }
}

async function writePassword(cluster: Cluster, password: string): Promise<void> {
  await rm(cluster.passwordFile, { force: true })
  await writeFile(cluster.passwordFile, `${password}\n`, { mode: 0o600 })
  const { user } = cluster
  if (user !== undefined) await chown(cluster.passwordFile, user.uid, user.gid)
}

async function runInitdb(
  cluster: Cluster,
  into: string,
  onLog: (line: string) => void,
): Promise<void> {
  const args = [
    `--pgdata=${into}`,
    '--username=postgres',
    `--pwfile=${cluster.passwordFile}`,
    '--auth=scram-sha-256',
    // Guessing a random 128-bit password needs no slowing down, and tests connect a lot.
    '--set=scram_iterations=1',
    // The same order and the same messages on every machine, whatever locales it has.
    '--encoding=UTF8',
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    '--no-instructions',
  ]
  try {
    const { stdout } = await run(cluster.initdb, args, {
      ...cluster.user,
      cwd: '/',
      env: POSTGRES_ENV,
    })
    for (const line of stdout.trim().split('\n')) onLog(line)
  } catch (cause) {
    const said = (cause as { stderr?: string }).stderr?.trim() || (cause as Error).message
    throw devStackError(
      `initdb could not make a database in ${cluster.dir}: ${said}\n` +
        `Choose another directory with dataDir (--data-dir), or ${USE_YOUR_OWN_POSTGRES}.`,
      cause,
    )
  }
}
