/**
 * The processes of docker-compose.yml, bundled as the image's build bundles them, against this run's services:
 * what a container would run, without the container.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { build } from 'esbuild'
import { afterAll, beforeAll, expect, inject, onTestFinished, test } from 'vitest'
import { openSession, openSessions } from '../../src/client.js'
import { pollUntil } from '../support/poll-until.js'
import {
  createSyncedDatabase,
  usesElectric,
  type SyncedDatabase,
} from '../support/synced-database.js'

// Beside the packages the bundles import.
const out = join('node_modules', '.cache', `electric-ai-db-production-${process.pid}`)
let database: SyncedDatabase

beforeAll(async () => {
  database = await createSyncedDatabase({ secret: 'production-secret' })
  await mkdir(join(out, 'page'), { recursive: true })
  await writeFile(join(out, 'page', 'index.html'), '<meta name="actor" content="" />')
  const entries = ['worker', 'server', 'streams-ready'].map(
    (name) => `examples/chat/production/${name}.ts`,
  )
  await build({
    entryPoints: entries,
    bundle: true,
    platform: 'node',
    format: 'esm',
    packages: 'external',
    outdir: out,
    logLevel: 'error',
  })
})
afterAll(() => rm(out, { recursive: true, force: true }))

function start(name: string, env: Record<string, string | undefined> = {}): ChildProcess {
  const child = spawn(process.execPath, [join(out, `${name}.js`)], {
    env: {
      PATH: process.env.PATH,
      DATABASE_URL: database.url,
      ELECTRIC_URL: database.electricUrl,
      ELECTRIC_SECRET: database.electricSecret,
      STREAMS_URL: inject('streamsUrl'),
      PORT: '0',
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
  })
  return child
}

/** Lines of JSON as they come, the first that passes. */
async function toldBy(child: ChildProcess, passes: (line: any) => boolean): Promise<any> {
  for await (const line of createInterface({ input: child.stdout! })) {
    const told: unknown = JSON.parse(line)
    if (passes(told)) return told
  }
  throw new Error('it ended without a word')
}

test('the Dockerfile builds what this test bundles', async () => {
  const dockerfile = await readFile('examples/chat/production/Dockerfile', 'utf8')
  for (const name of ['worker', 'server', 'streams-ready']) {
    expect(dockerfile).toContain(`examples/chat/production/${name}.ts`)
  }
  expect(dockerfile).toContain(
    '--bundle --platform=node --target=node22 --format=esm --packages=external',
  )
})

test('streams-ready ends when the stream server answers', async () => {
  const [code] = await once(start('streams-ready'), 'exit')
  expect(code).toBe(0)
})

test('a process without its environment ends and names what is missing', async () => {
  const child = start('worker', { STREAMS_URL: undefined, ELECTRIC_SECRET: '' })
  let told = ''
  child.stderr!.on('data', (data: Buffer) => (told += data.toString()))
  const [code] = await once(child, 'exit')
  expect(code).not.toBe(0)
  expect(told).toContain('STREAMS_URL')
  expect(told).toContain('ELECTRIC_SECRET')
  expect(told).not.toContain('DATABASE_URL:')
})

test(
  'worker and app answer a message over HTTP, and both leave on SIGTERM',
  { timeout: 60_000 },
  async ({ skip }) => {
    if (usesElectric) {
      skip(
        'skipped: on a shared database the default schema, which these processes serve, is not ours',
      )
    }
    const worker = start('worker')
    const app = start('server')
    await toldBy(worker, ({ type }) => type === 'started')
    const { listening } = await toldBy(app, ({ listening }) => listening !== undefined)
    const url = `http://127.0.0.1:${listening.port}`
    expect((await fetch(`${url}/health`)).status).toBe(200)
    const page = await fetch(url)
    const cookie = page.headers.get('set-cookie')!.split(';')[0]!
    expect(await page.text()).toMatch(/content="[^"]+"/)

    const client = { url: `${url}/api`, headers: { cookie }, storage: null }
    await using sessions = openSessions(client)
    const { id, isPersisted } = sessions.create({ title: 'Production' })
    await isPersisted.promise
    await using session = openSession({ ...client, sessionId: id })
    await session.send('What is 17*23?').isPersisted.promise
    const answer = await pollUntil('an answer in the session', () =>
      [...session.collections.messages.values()].find(({ role }) => role === 'assistant'),
    )
    expect(answer.content).toContain('391')

    for (const child of [worker, app]) {
      const gone = once(child, 'exit')
      child.kill('SIGTERM')
      expect(await gone).toEqual([0, null])
    }
  },
)
