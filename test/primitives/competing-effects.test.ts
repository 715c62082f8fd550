/**
 * Many consumers, one table: processes with the same tool execution effect, each with its own synced collection,
 * compete for the same pending rows. The claim decides; every row is settled, and by one of them.
 */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { buildSync } from 'esbuild'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { createSession } from '../../src/sessions/create-session.js'
import { pollUntil } from '../support/poll-until.js'
import { createSyncedDatabase, type SyncedDatabase } from '../support/synced-database.js'
import type { EffectProcessOptions } from './effect-process.js'

const SOURCE = fileURLToPath(new URL('./effect-process.ts', import.meta.url))
// Below node_modules, so that it finds its packages.
const COMPILED = fileURLToPath(
  new URL(`../../node_modules/.cache/effect-process-${process.pid}.mjs`, import.meta.url),
)

let database: SyncedDatabase
beforeAll(async () => {
  database = await createSyncedDatabase()
  buildSync({
    ...{ bundle: true, platform: 'node', format: 'esm', packages: 'external', logLevel: 'error' },
    ...{ entryPoints: [SOURCE], outfile: COMPILED },
  })
})

interface EffectProcess {
  readonly executed: string[]
  readonly child: ChildProcess
}

async function startEffect(choices: Partial<EffectProcessOptions> = {}): Promise<EffectProcess> {
  const options: EffectProcessOptions = {
    databaseUrl: database.url,
    electricUrl: database.electricUrl,
    ...(database.electricSecret ? { electricSecret: database.electricSecret } : {}),
    schema: database.schema,
    concurrency: 20,
    leaseMs: 10_000,
    ...choices,
  }
  const child = fork(COMPILED, [JSON.stringify(options)], {
    stdio: ['pipe', 'pipe', 'inherit', 'ipc'],
  })
  const exited = once(child, 'exit')
  onTestFinished(async () => {
    child.stdin!.end()
    await exited
  })
  const lines: string[] = []
  let rest = ''
  child.stdout!.on('data', (bytes: Buffer) => {
    const parts = (rest + String(bytes)).split('\n')
    rest = parts.pop()!
    lines.push(...parts)
  })
  await pollUntil('the effect', () => lines.includes('ready'))
  lines.splice(lines.indexOf('ready'), 1)
  return { executed: lines, child }
}

/** So many pending calls of a generation that runs. */
async function pendingCalls(count: number): Promise<string> {
  const { sql, schema } = database
  const session = await createSession(database.db, {}, { schema })
  const id = crypto.randomUUID()
  await sql.unsafe(
    `insert into "${schema}".generations (id, session_id, agent_name) values ($1, $2, 'agent')`,
    [id, session.id],
  )
  await sql.unsafe(
    `insert into "${schema}".tool_calls (id, generation_id, session_id, step, index, provider_call_id, name, args)
     select $1 || '-' || i, $1, $2, 0, i, 'c' || i, 'double', jsonb_build_object('n', i)
       from generate_series(1, $3::int) i`,
    [id, session.id, count],
  )
  return id
}

async function statuses(generationId: string): Promise<Record<string, number>> {
  const rows = await database.sql.unsafe<{ status: string; count: number }[]>(
    `select status, count(*)::int as count from "${database.schema}".tool_calls
      where generation_id = $1 group by status`,
    [generationId],
  )
  return Object.fromEntries(rows.map(({ status, count }) => [status, count]))
}

const allSettled = (generationId: string, count: number, patienceMs = 60_000) =>
  pollUntil(
    'every call to be completed',
    async () => (await statuses(generationId)).completed === count,
    patienceMs,
  )

test('two processes and 2,000 pending rows: each is executed and settled once, none is left', async () => {
  const effects = await Promise.all([startEffect(), startEffect()])
  const generationId = await pendingCalls(2_000)
  await allSettled(generationId, 2_000)
  const executed = effects.flatMap((effect) => effect.executed)
  await pollUntil(
    'the last line',
    () =>
      executed.length === 2_000 || effects.flatMap((effect) => effect.executed).length === 2_000,
  )
  const all = effects.flatMap((effect) => effect.executed)
  expect(new Set(all).size).toBe(2_000)
  expect(effects.every((effect) => effect.executed.length > 0)).toBe(true)
  const [wrong] = await database.sql.unsafe<{ count: number }[]>(
    `select count(*)::int as count from "${database.schema}".tool_calls
      where generation_id = $1 and (attempt <> 1 or result <> to_jsonb(2 * (args->>'n')::int))`,
    [generationId],
  )
  expect(wrong!.count).toBe(0)
}, 90_000)

test('a process killed amidst leaves nothing: the other one runs what it held again, as attempt 2', async () => {
  const [doomed, other] = await Promise.all([
    startEffect({ leaseMs: 1_000 }),
    startEffect({ leaseMs: 1_000 }),
  ])
  const generationId = await pendingCalls(1_000)
  await pollUntil('some work', () => doomed!.executed.length > 50)
  doomed!.child.kill('SIGKILL')
  await allSettled(generationId, 1_000)
  const again = await database.sql.unsafe<{ id: string }[]>(
    `select id from "${database.schema}".tool_calls where generation_id = $1 and attempt > 1`,
    [generationId],
  )
  // No more than it could hold.
  expect(again.length).toBeLessThanOrEqual(20)
  expect(new Set(other!.executed).size).toBe(other!.executed.length)
}, 90_000)
