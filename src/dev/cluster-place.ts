/**
 * Where the files of Postgres live: in the data directory, unless root started the stack and the
 * user that Postgres runs as cannot enter that directory (a clone under /root). Then they live in a
 * shared temporary place, under a name made from the data directory's own path, so that the next
 * start with the same data directory finds the same data.
 */
import { createHash } from 'node:crypto'
import { chmod, mkdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { devStackError } from './dev-stack-error.js'
import { canEnter, choosePostgresUser, makeOwned, sharedPlace } from './postgres-user.js'
import type { PostgresUser } from './postgres-user.js'

export interface ClusterPlace {
  dir: string
  user: PostgresUser | undefined
  /** Whether `dir` had to be elsewhere than in the data directory. */
  moved: boolean
}

export async function placeCluster(dataDir: string): Promise<ClusterPlace> {
  const home = await realpath(dataDir)
  const user = await choosePostgresUser(join(home, 'db', 'postgres'))
  if (user === undefined || canEnter(user, home)) {
    return { dir: await place(join(home, 'db'), user), user, moved: false }
  }
  const name = createHash('sha256').update(home).digest('hex').slice(0, 16)
  const dir = join(await sharedPlace(user), `data-${name}`)
  return { dir: await place(dir, user), user, moved: true }
}

/** Creates the data directory itself, open to whoever Postgres will run as. */
export async function makeDataDir(dataDir: string): Promise<void> {
  try {
    const made = await mkdir(dataDir, { recursive: true })
    // A umask of 077 must not shut out Postgres' user; what is secret in here has its own modes.
    if (made !== undefined) await chmod(dataDir, 0o755)
  } catch (cause) {
    throw devStackError(
      `The data directory ${dataDir} cannot be created: ${(cause as Error).message}. ` +
        'Choose a directory you can write with dataDir (--data-dir).',
      cause,
    )
  }
}

async function place(dir: string, user: PostgresUser | undefined): Promise<string> {
  try {
    await makeOwned(dir, user)
    return dir
  } catch (cause) {
    throw devStackError(
      `Postgres' files cannot be kept in ${dir}: ${(cause as Error).message}. ` +
        'Choose a directory you can write with dataDir (--data-dir).',
      cause,
    )
  }
}
