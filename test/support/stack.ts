/**
 * The stack of a test run, in a fresh temporary directory that disappears with it. DATABASE_URL,
 * STREAMS_URL and ELECTRIC_URL, when set, name services that are used instead.
 */
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startDevStack } from '../../src/dev/stack.js'
import type {} from 'vitest'
import type { DevStack, DevStackOptions } from '../../src/dev.js'

declare module 'vitest' {
  export interface ProvidedContext {
    /** A superuser's URL of the run's Postgres. Make a database of your own; leave this one alone. */
    databaseUrl: string
    /** Origin of the run's Durable Streams server. Take stream names nobody else takes. */
    streamsUrl: string
    /**
     * Origin of the run's sync server, over the database of `databaseUrl`. A test file takes one over
     * a database of its own: test/support/synced-database.ts.
     */
    electricUrl: string
  }
}

/** A directory that Postgres' user can enter when the tests run as root (mkdtemp makes it 0700). */
export async function makeTempDir(name: string): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), `electric-ai-db-${name}-`))
  await chmod(directory, 0o755)
  return directory
}

export async function startTestStack(env: DevStackOptions['env'] = process.env): Promise<DevStack> {
  const dataDir = await makeTempDir('test')
  const removeDir = () => rm(dataDir, { recursive: true, force: true })
  const stack = await startDevStack({ dataDir, env }).catch(async (thrown: unknown) => {
    await removeDir()
    throw thrown
  })
  const stop = async () => {
    await stack.stop()
    await removeDir()
  }
  return { ...stack, stop, [Symbol.asyncDispose]: stop }
}
