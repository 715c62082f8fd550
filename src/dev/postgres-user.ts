/**
 * Who Postgres runs as. It refuses root, so a stack started by root hands Postgres to another user:
 * the owner of an existing data directory, else the system's `postgres`, else `nobody`. No user is
 * ever created. Anybody else runs Postgres as himself.
 *
 * That other user often cannot enter what root can (a clone under /root, a umask of 077), so what
 * Postgres must reach is tried as that user, not computed from modes: ACLs and mounts count too.
 */
import { execFile, spawnSync } from 'node:child_process'
import { chmod, chown, lstat, mkdir, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { devStackError, USE_YOUR_OWN_POSTGRES } from './dev-stack-error.js'

export interface PostgresUser {
  uid: number
  gid: number
}

/** Candidates when root starts a new cluster; both exist on every usual Linux and macOS. */
const STAND_INS = ['postgres', 'nobody']

export function runsAsRoot(): boolean {
  return process.getuid?.() === 0
}

/** Undefined means "as whoever runs this process". */
export async function choosePostgresUser(clusterDir: string): Promise<PostgresUser | undefined> {
  if (!runsAsRoot()) return undefined
  const owner = await stat(clusterDir).catch(() => undefined)
  if (owner !== undefined && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid }
  for (const name of STAND_INS) {
    const user = await userNamed(name)
    if (user !== undefined) return user
  }
  throw devStackError(
    `Postgres refuses to run as root, and this system has no user ${STAND_INS.join(' or ')} to run ` +
      `it as. Start the stack as an ordinary user, or ${USE_YOUR_OWN_POSTGRES}.`,
  )
}

/** Whether `user` can run this program, found by running it. */
export function canRun(user: PostgresUser | undefined, program: string): boolean {
  const tried = spawnSync(program, ['--version'], { ...user, cwd: '/', stdio: 'ignore' })
  return tried.status === 0
}

/** Whether `user` can enter this directory, found by entering it. */
export function canEnter(user: PostgresUser, directory: string): boolean {
  const tried = spawnSync('/bin/sh', ['-c', 'cd "$1"', 'sh', directory], {
    ...user,
    cwd: '/',
    stdio: 'ignore',
  })
  return tried.status === 0
}

/**
 * A directory that every user can enter and only we can write, for what has to leave an unreachable
 * place. Its name is predictable, so one that somebody else made first is refused: Postgres would
 * run his binaries.
 */
export async function sharedPlace(user: PostgresUser | undefined): Promise<string> {
  const uid = process.getuid?.() ?? 0
  for (const parent of [tmpdir(), '/var/tmp', '/tmp']) {
    if (user !== undefined && !canEnter(user, parent)) continue
    const place = join(parent, `electric-ai-db-${uid}`)
    await mkdir(place, { mode: 0o755 }).catch(() => undefined)
    const found = await lstat(place).catch(() => undefined)
    if (found === undefined) continue
    if (found.isDirectory() && found.uid === uid && (found.mode & 0o022) === 0) {
      await chmod(place, 0o755) // A umask of 077 has shut out the very users it is for.
      return place
    }
    throw devStackError(
      `${place} belongs to another user or is writable by others, so Postgres' binaries cannot be ` +
        'kept there. Remove it, or point TMPDIR at a directory of your own.',
    )
  }
  throw devStackError(
    'No temporary directory can be entered by the user Postgres runs as. ' +
      'Point TMPDIR at a directory that every user may enter.',
  )
}

/** Creates `directory` for Postgres alone to use. */
export async function makeOwned(directory: string, user: PostgresUser | undefined): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 })
  if (user !== undefined) await chown(directory, user.uid, user.gid)
}

const run = promisify(execFile)

async function userNamed(name: string): Promise<PostgresUser | undefined> {
  try {
    const [uid, gid] = await Promise.all([run('id', ['-u', name]), run('id', ['-g', name])])
    return { uid: Number(uid.stdout), gid: Number(gid.stdout) }
  } catch {
    return undefined
  }
}
