/**
 * Builds the chat page when the demo starts: as a user's build would, with the package's browser entry taken
 * from this repository. The result is kept under node_modules/.cache by the hash of everything it was made
 * from, so a start with nothing changed builds nothing.
 *
 * The build itself runs in a process of its own (`build-page-process.ts`): it decides about NODE_ENV, and it
 * must not hold up the start of the rest.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile, rename, rm } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { TSX } from './tsx-loader.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const PAGE = fileURLToPath(new URL('page', import.meta.url))
const BUILDER = fileURLToPath(new URL('build-page-process.ts', import.meta.url))
const CACHE = join(ROOT, 'node_modules', '.cache', 'electric-ai-db')

export interface BuiltPage {
  /** Holds index.html and assets/, whose names have their contents' hash. */
  directory: string
  /** False: it was there already. */
  wasBuilt: boolean
}

/** @throws Error with the builder's own words. */
export async function buildPage(): Promise<BuiltPage> {
  const directory = join(CACHE, `page-${await hashOfSources()}`)
  if (existsSync(join(directory, 'index.html'))) return { directory, wasBuilt: false }
  const draft = `${directory}.${process.pid}`
  try {
    await promisify(execFile)(process.execPath, [...TSX, BUILDER, PAGE, draft], {
      cwd: ROOT,
      env: { ...process.env, NODE_ENV: 'production' },
    })
    await forgetOlderBuilds()
    await rename(draft, directory)
  } catch (thrown) {
    await rm(draft, { recursive: true, force: true })
    // Another process was faster.
    if (!existsSync(join(directory, 'index.html'))) throw thrown
  }
  return { directory, wasBuilt: true }
}

/** Names and contents: of the page, of the library it imports, and of what npm installed. */
async function hashOfSources(): Promise<string> {
  const folders = [PAGE, join(ROOT, 'src')]
  const inFolders = await Promise.all(folders.map(filesBelow))
  const files = [...inFolders.flat(), BUILDER, join(ROOT, 'package-lock.json')].toSorted()
  const hash = createHash('sha256')
  for (const file of files) hash.update(`${relative(ROOT, file)}\0`).update(await readFile(file))
  return hash.digest('hex').slice(0, 16)
}

async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
}

/** Whoever serves one has it in memory. Drafts are somebody's work. */
async function forgetOlderBuilds(): Promise<void> {
  const names = await readdir(CACHE).catch(() => [])
  const older = names.filter((name) => /^page-[0-9a-f]+$/.test(name))
  await Promise.all(older.map((name) => rm(join(CACHE, name), { recursive: true, force: true })))
}
