/**
 * One live stack per data directory. `stack.lock` names the owner by pid and start time, so a lock
 * whose owner was killed, or whose pid belongs to another program by now, is taken over without a
 * word, and a live one is reported with its URLs.
 *
 * The file appears complete, by link(2), which also is the test that nobody else has it. Taking a
 * stale one over renames it first: of two who try, one finds it gone and reads the winner's.
 */
import { randomUUID } from 'node:crypto'
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { devStackError, systemCode } from './dev-stack-error.js'
import { processStart } from './process-identity.js'

interface Owner {
  /** One per acquisition: tells this owner's file from any other's. */
  token: string
  pid: number
  processStart: string | undefined
  /** Absent while the stack is starting. */
  urls?: StackUrls
}

export interface StackUrls {
  databaseUrl: string
  streamsUrl: string
  electricUrl: string
}

export interface StackLock {
  /** Tells whoever meets this lock how to reach the stack. */
  publish(urls: StackUrls): Promise<void>
  release(): Promise<void>
}

export async function lockDataDir(dataDir: string): Promise<StackLock> {
  const path = join(dataDir, 'stack.lock')
  const { pid } = process
  const owner: Owner = { token: randomUUID(), pid, processStart: await processStart(pid) }
  const draft = `${path}.${owner.token}`
  await writeFile(draft, JSON.stringify(owner))
  try {
    while (!(await tryLink(draft, path))) await clearUnlessHeld(path, dataDir)
  } finally {
    await rm(draft, { force: true })
  }
  return {
    publish: (urls) => replace(path, draft, { ...owner, urls }),
    release: () => removeOwn(path, owner),
  }
}

async function tryLink(draft: string, path: string): Promise<boolean> {
  try {
    await link(draft, path)
    return true
  } catch (thrown) {
    if (systemCode(thrown) === 'EEXIST') return false
    throw thrown
  }
}

async function clearUnlessHeld(path: string, dataDir: string): Promise<void> {
  const holder = await readOwner(path)
  if (holder === undefined) return
  if (await isHeld(holder)) throw heldError(holder, dataDir)
  const aside = `${path}.stale-${randomUUID()}`
  const renamed = await rename(path, aside).then(
    () => true,
    () => false,
  )
  if (!renamed) return
  // Somebody was faster and this is his fresh lock: give it back, and find it held next time.
  if ((await readOwner(aside))?.token !== holder.token) await tryLink(aside, path)
  await rm(aside, { force: true })
}

async function isHeld(holder: Owner): Promise<boolean> {
  const started = await processStart(holder.pid)
  return started !== undefined && started === holder.processStart
}

/** A file of another shape (cut short by a crash of the machine) belongs to nobody. */
async function readOwner(path: string): Promise<Owner | undefined> {
  try {
    const read = JSON.parse(await readFile(path, 'utf8')) as Partial<Owner> | null
    return { token: '', pid: 0, processStart: undefined, ...read }
  } catch (thrown) {
    if (systemCode(thrown) === 'ENOENT') return undefined
    return { token: '', pid: 0, processStart: undefined }
  }
}

async function replace(path: string, draft: string, owner: Owner): Promise<void> {
  await writeFile(draft, JSON.stringify(owner), { mode: 0o600 })
  await rename(draft, path)
}

async function removeOwn(path: string, owner: Owner): Promise<void> {
  if ((await readOwner(path))?.token === owner.token) await rm(path, { force: true })
}

function heldError(holder: Owner, dataDir: string) {
  const { urls } = holder
  const share = urls
    ? `To share it, set DATABASE_URL=${urls.databaseUrl} STREAMS_URL=${urls.streamsUrl} ` +
      `ELECTRIC_URL=${urls.electricUrl}; otherwise`
    : 'It is still starting: wait for it,'
  return devStackError(
    `Another development stack (pid ${holder.pid}) already runs in ${dataDir}. ${share} stop it, ` +
      'or choose another directory with dataDir (--data-dir).',
  )
}
