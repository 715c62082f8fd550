/** What a kill -9 leaves behind, of the owner, of its watchdog, of Postgres, and the next start. */
import { spawnSync } from 'node:child_process'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startDevStack, startPostgres } from '../../src/dev.js'
import { isAlive } from '../../src/dev/process-identity.js'
import { makeTempDir } from '../support/stack.js'
import { pidFileOf, postmasterPid, spawnOwner, waitUntilGone, watchdogOf } from './processes.js'

let dataDir: string

const start = (onLog?: (line: string) => void) => startDevStack({ dataDir, env: {}, onLog })

async function committedNotes(databaseUrl: string, note?: string): Promise<string[]> {
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => {} })
  await sql`create table if not exists notes (note text)`
  if (note !== undefined) await sql`insert into notes values (${note})`
  const rows = await sql<{ note: string }[]>`select note from notes`
  await sql.end()
  return rows.map((row) => row.note)
}

/** A pid that belonged to a process and now belongs to none. */
async function deadPid(): Promise<number> {
  return spawnSync('true').pid
}

beforeAll(async () => {
  dataDir = await makeTempDir('crash')
  await (await start()).stop()
})

afterAll(() => rm(dataDir, { recursive: true, force: true }))

describe('kill -9 of the process that owns the stack', () => {
  test('takes Postgres with it, and a start in the same directory has the data', async () => {
    const owner = await spawnOwner(dataDir)
    await committedNotes(owner.stack.databaseUrl, 'before the kill')
    const orphan = await postmasterPid(dataDir)
    owner.child.kill('SIGKILL')
    await owner.exited
    await waitUntilGone(orphan)
    await using stack = await start()
    expect(await committedNotes(stack.databaseUrl)).toContain('before the kill')
  })

  test('does not hinder a start at the very same moment, while Postgres still shuts down', async () => {
    const owner = await spawnOwner(dataDir)
    const orphan = await postmasterPid(dataDir)
    owner.child.kill('SIGKILL')
    await owner.exited
    await using stack = await start()
    expect(await isAlive(orphan)).toBe(false)
    expect(stack.started.postgres).toBe(true)
  })

  test.skipIf(process.platform !== 'linux')(
    'and of its watchdog: the next start stops the orphan and goes on',
    async () => {
      const owner = await spawnOwner(dataDir)
      const orphan = await postmasterPid(dataDir)
      process.kill(await watchdogOf(orphan), 'SIGKILL')
      owner.child.kill('SIGKILL')
      await owner.exited
      expect(await isAlive(orphan)).toBe(true)
      const log: string[] = []
      await using stack = await start((line) => log.push(line))
      expect(log.join('\n')).toContain(`stopping Postgres (pid ${orphan})`)
      expect(await isAlive(orphan)).toBe(false)
      expect(await postmasterPid(stack.dataDir)).not.toBe(orphan)
    },
  )
})

describe('kill -9 of Postgres', () => {
  test('loses no commit, and the port is taken up again', async () => {
    const first = await startPostgres({ dataDir })
    await committedNotes(`${first.serverUrl}/ai_db_dev`, 'before Postgres died')
    process.kill(first.pid, 'SIGKILL')
    await first.exited
    const second = await startPostgres({ dataDir, port: first.port })
    const notes = await committedNotes(`${second.serverUrl}/ai_db_dev`)
    await second.stop()
    expect(notes).toContain('before Postgres died')
  })
})

describe('a file left behind', () => {
  test.each([
    ['belongs to nobody now', deadPid],
    ['belongs to another program now', async () => process.pid],
  ])('postmaster.pid whose pid %s does not hinder a start', async (_, pid) => {
    const recorded = await pid()
    await writeFile(pidFileOf(dataDir), `${recorded}\n${dataDir}/db/postgres\n`)
    await using stack = await start()
    expect(await postmasterPid(stack.dataDir)).not.toBe(recorded)
  })

  test.each([
    ['an owner that is dead', async () => ({ pid: await deadPid(), processStart: '1' })],
    ['a pid that another program has now', async () => ({ pid: process.pid, processStart: '1' })],
    ['nothing readable', async () => undefined],
  ])('stack.lock that names %s is taken over', async (_, owner) => {
    const lock = join(dataDir, 'stack.lock')
    await writeFile(lock, JSON.stringify(await owner()) ?? '{"pid":')
    await using stack = await start()
    expect(JSON.parse(await readFile(lock, 'utf8'))).toMatchObject({
      pid: process.pid,
      urls: { databaseUrl: stack.databaseUrl },
    })
  })

  test('a database that initdb did not finish is made anew', async () => {
    const fresh = await makeTempDir('unfinished')
    const unfinished = join(fresh, 'db', 'postgres.unfinished')
    await mkdir(unfinished, { recursive: true })
    await writeFile(join(unfinished, 'PG_VERSION'), '18\n')
    await using stack = await startDevStack({ dataDir: fresh, env: {} })
    expect(await committedNotes(stack.databaseUrl)).toEqual([])
    await stack.stop()
    await rm(fresh, { recursive: true })
  })

  test('files of another major version are named, not touched', async () => {
    const foreign = await makeTempDir('foreign')
    await mkdir(join(foreign, 'db', 'postgres'), { recursive: true })
    await writeFile(join(foreign, 'db', 'postgres', 'PG_VERSION'), '16\n')
    await expect(startDevStack({ dataDir: foreign, env: {} })).rejects.toMatchObject({
      code: 'DEV_STACK',
      message: expect.stringMatching(/PostgreSQL 16.*--data-dir/s),
    })
    await rm(foreign, { recursive: true })
  })
})
