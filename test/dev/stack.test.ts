/** The stack from the outside: what a demo, a test run or `electric-ai-db dev` relies on. */
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { basename } from 'node:path'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { startDevStack } from '../../src/dev.js'
import type { DevStackOptions } from '../../src/dev.js'
import { isAlive } from '../../src/dev/process-identity.js'
import { makeTempDir } from '../support/stack.js'
import { postmasterPid, spawnScript } from './processes.js'

let dataDir: string

const start = (options: DevStackOptions = {}) => startDevStack({ dataDir, env: {}, ...options })

beforeAll(async () => {
  dataDir = await makeTempDir('stack')
  await using first = await start()
  const sql = postgres(first.databaseUrl, { max: 1 })
  await sql`create table kept as select 'from the first run' as note`
  await sql.end()
})

afterAll(() => rm(dataDir, { recursive: true, force: true }))

describe('a stack on a directory that was used before', () => {
  test('is ready in under 5 seconds, and says so truthfully', async () => {
    const before = performance.now()
    await using stack = await start()
    const took = performance.now() - before
    expect(took).toBeLessThan(5_000)
    expect(Math.abs(took - stack.readyMs)).toBeLessThan(100)
    expect(stack.started).toEqual({ postgres: true, streams: true, sync: true })
  })

  test('has the data of the run before', async () => {
    await using stack = await start()
    const sql = postgres(stack.databaseUrl, { max: 1 })
    expect(await sql`select note from kept`).toEqual([{ note: 'from the first run' }])
    await sql.end()
  })

  test('has the URLs of the run before, as long as its ports are free', async () => {
    await using first = await start()
    await first.stop()
    await using second = await start()
    expect(second.databaseUrl).toBe(first.databaseUrl)
    expect(second.streamsUrl).toBe(first.streamsUrl)
    expect(second.electricUrl).toBe(first.electricUrl)
  })

  test('takes logical replication and 200 connections, and does not lie about durability', async () => {
    await using stack = await start()
    const sql = postgres(stack.databaseUrl, { max: 1 })
    const settings = await sql`
      select name, setting from pg_settings
      where name in ('wal_level', 'max_connections', 'fsync', 'synchronous_commit')`
    await sql.end()
    expect(Object.fromEntries(settings.map((row) => [row.name, row.setting]))).toEqual({
      wal_level: 'logical',
      max_connections: '200',
      fsync: 'on',
      synchronous_commit: 'on',
    })
  })

  test('creates the database it is asked for', async () => {
    await using stack = await start({ database: 'another-one' })
    const sql = postgres(stack.databaseUrl, { max: 1 })
    expect(await sql`select current_database() as name`).toEqual([{ name: 'another-one' }])
    await sql.end()
  })

  test('refuses the superuser without its password', async () => {
    await using stack = await start()
    const url = new URL(stack.databaseUrl)
    url.password = 'wrong'
    const sql = postgres(url.href, { max: 1 })
    await expect(sql`select 1`).rejects.toMatchObject({ code: '28P01' })
    await sql.end()
  })
})

describe('stop', () => {
  test('leaves no Postgres behind and may be called twice', async () => {
    const stack = await start()
    const pid = await postmasterPid(dataDir)
    await Promise.all([stack.stop(), stack.stop()])
    expect(await isAlive(pid)).toBe(false)
    await stack.stop()
  })

  test('does not wait for clients that hold on: a running query, a long-poll, an idle connection', async () => {
    await using stack = await start()
    const busy = postgres(stack.databaseUrl, { max: 1, fetch_types: false })
    const idle = postgres(stack.databaseUrl, { max: 1, fetch_types: false })
    const held = busy`select pg_sleep(60)`.catch((thrown: Error) => thrown)
    await vi.waitUntil(async () => {
      const [row] = await idle`
        select 1 from pg_stat_activity where wait_event = 'PgSleep' and datname = 'ai_db_dev'`
      return row !== undefined
    })
    const stream = `${stack.streamsUrl}/v1/stream/held`
    const created = await fetch(stream, { method: 'PUT' })
    const offset = created.headers.get('stream-next-offset')
    const poll = fetch(`${stream}?offset=${offset}&live=long-poll`).catch((thrown: Error) => thrown)

    const before = performance.now()
    await stack.stop()
    expect(performance.now() - before).toBeLessThan(4_000)
    expect(await held).toBeInstanceOf(Error)
    await poll
    await Promise.all([busy.end({ timeout: 0 }), idle.end({ timeout: 0 })])
  })

  test('leaves nothing that keeps the process running', async () => {
    const { exited } = spawnScript('test/dev/stack-owner.ts', dataDir, 'stop')
    expect(await exited).toEqual([0, null])
  })
})

describe('a start that cannot be', () => {
  test('names the directory, the owner and the URLs when another stack holds the directory', async () => {
    await using stack = await start()
    await expect(start()).rejects.toMatchObject({
      code: 'DEV_STACK',
      message: expect.stringMatching(
        new RegExp(`pid ${process.pid}.*${basename(dataDir)}.*--data-dir`, 's'),
      ),
    })
    await expect(start()).rejects.toThrow(stack.databaseUrl)
  })

  test.each([
    ['postgresPort', '--port'],
    ['streamsPort', '--streams-port'],
    ['syncPort', '--sync-port'],
  ] as const)(
    'names the port when %s is in use, and leaves nothing running',
    async (option, flag) => {
      const occupant = createServer().listen(0, '127.0.0.1')
      await once(occupant, 'listening')
      const { port } = occupant.address() as AddressInfo
      await expect(start({ [option]: port })).rejects.toMatchObject({
        code: 'DEV_STACK',
        message: expect.stringMatching(new RegExp(`:${port}.*in use.*${flag}`, 's')),
      })
      occupant.close()
      await using later = await start({ [option]: port })
      expect(`${later.databaseUrl} ${later.streamsUrl} ${later.electricUrl}`).toContain(`:${port}`)
    },
  )

  test('names an unknown option and the known ones', async () => {
    await expect(start({ datadir: 'x' } as DevStackOptions)).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      field: 'datadir',
      message: expect.stringContaining('dataDir'),
    })
    await expect(start({ streamsPort: 70_000 })).rejects.toMatchObject({ field: 'streamsPort' })
    await expect(start({ syncPort: 70_000 })).rejects.toMatchObject({ field: 'syncPort' })
    await expect(start({ database: 'a/b' })).rejects.toMatchObject({ field: 'database' })
  })
})

describe('with URLs in the environment', () => {
  const env = {
    DATABASE_URL: 'postgres://elsewhere/app',
    STREAMS_URL: 'https://streams.example',
    ELECTRIC_URL: 'https://electric.example',
  }

  test('starts nothing, writes nothing, and hands the URLs on', async () => {
    await using held = await start()
    await using stack = await start({ env })
    expect(stack.started).toEqual({ postgres: false, streams: false, sync: false })
    expect(stack).toMatchObject({
      databaseUrl: env.DATABASE_URL,
      streamsUrl: env.STREAMS_URL,
      electricUrl: env.ELECTRIC_URL,
    })
    expect(held.databaseUrl).not.toBe(stack.databaseUrl)
  })

  test('starts only the service that has none', async () => {
    const { DATABASE_URL, ELECTRIC_URL } = env
    await using stack = await start({ env: { DATABASE_URL, ELECTRIC_URL } })
    expect(stack.started).toEqual({ postgres: false, streams: true, sync: false })
    const answer = await fetch(`${stack.streamsUrl}/v1/stream/x`, { method: 'PUT' })
    expect(answer.status).toBe(201)
  })

  test('syncs a database that is given', async () => {
    await using held = await start()
    const directory = await makeTempDir('sync-only')
    const { databaseUrl: DATABASE_URL, streamsUrl: STREAMS_URL } = held
    await using stack = await start({ dataDir: directory, env: { DATABASE_URL, STREAMS_URL } })
    expect(stack.started).toEqual({ postgres: false, streams: false, sync: true })
    const answer = await fetch(`${stack.electricUrl}/v1/shape?table=kept&offset=-1`)
    expect(await answer.json()).toMatchObject([
      { value: { note: 'from the first run' }, headers: { operation: 'insert' } },
      { headers: { control: 'snapshot-end' } },
    ])
    await rm(directory, { recursive: true, force: true })
  })

  test('names a database that cannot be reached', async () => {
    const DATABASE_URL = 'postgres://nobody@127.0.0.1:1/none'
    await expect(start({ env: { ...env, DATABASE_URL, ELECTRIC_URL: '' } })).rejects.toMatchObject({
      code: 'DEV_STACK',
      message: expect.stringContaining('DATABASE_URL'),
    })
  })
})

describe('electric-ai-db dev', () => {
  test('prints its URLs and stops cleanly on SIGTERM', async () => {
    const command = spawnScript('test/dev/cli-dev.ts', '--data-dir', dataDir)
    const printed: string[] = []
    let postmaster = 0
    for await (const line of command.lines) {
      printed.push(line)
      if (printed.length < 3) continue
      postmaster = await postmasterPid(dataDir)
      command.child.kill('SIGTERM')
    }
    expect(printed).toEqual([
      expect.stringMatching(/^DATABASE_URL=postgres:\/\//),
      expect.stringMatching(/^STREAMS_URL=http:\/\//),
      expect.stringMatching(/^ELECTRIC_URL=http:\/\//),
    ])
    expect(await command.exited).toEqual([0, null])
    expect(await isAlive(postmaster)).toBe(false)
    expect(await command.stderr).toContain('development only')
  })

  test('exits with 2 and its usage on a flag it does not know', async () => {
    const command = spawnScript('test/dev/cli-dev.ts', '--databse')
    expect(await command.exited).toEqual([2, null])
    expect(await command.stderr).toContain('Usage: electric-ai-db dev')
  })
})
