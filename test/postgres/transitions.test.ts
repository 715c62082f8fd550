/**
 * The typed transition tables against the database, cell by cell, through plain SQL: a row is brought into
 * `from` by legal moves, then moved to `to` with every column the CHECKs ask for, so that the guard is the
 * only thing that can refuse.
 */
import { beforeAll, describe, expect, it } from 'vitest'
import {
  generationTransitions,
  initialGenerationStatuses,
  initialToolCallStatuses,
  toolCallTransitions,
  type FiberStatus,
} from '../../src/contract/status.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})

type Table = 'generations' | 'tool_calls' | 'fibers'
type Transitions = Readonly<Record<string, Readonly<Record<string, boolean>>>>

/** Fibers share the tool call's moves; nothing makes one that cannot run. */
const initialFiberStatuses: Record<FiberStatus, boolean> = {
  ...initialToolCallStatuses,
  failed: false,
}

const machines: readonly (readonly [Table, Transitions, Readonly<Record<string, boolean>>])[] = [
  ['generations', generationTransitions, initialGenerationStatuses],
  ['tool_calls', toolCallTransitions, initialToolCallStatuses],
  ['fibers', toolCallTransitions, initialFiberStatuses],
]

const heldStatus = (table: Table) => (table === 'generations' ? 'generating' : 'executing')
const settled = (status: string) => ['completed', 'failed', 'cancelled'].includes(status)
const quote = (value: string | null) => (value === null ? 'null' : `'${value}'`)

/** Every column whose value a CHECK ties to the status. */
function columnsOf(table: Table, status: string): Record<string, string> {
  return {
    status: quote(status),
    completed_at: settled(status) ? 'now()' : 'null',
    cancel_reason: quote(status === 'cancelled' ? 'by-user' : null),
    error: quote(status === 'failed' ? 'a reason' : null),
    worker_id: quote('worker'),
    ...(table === 'generations' && { wait_reason: quote(status === 'waiting' ? 'tools' : null) }),
  }
}

async function insert(table: Table, status = 'pending', attempt = 0): Promise<string> {
  const id = crypto.randomUUID()
  const session = async () => {
    await database.sql`insert into ai_db.sessions (id) values (${id})`
    return quote(id)
  }
  const own = {
    generations: async () => ({ session_id: await session(), agent_name: quote('agent') }),
    tool_calls: async () => ({
      session_id: await session(),
      generation_id: quote(await insert('generations')),
      step: '0',
      index: '0',
      provider_call_id: quote(id),
      name: quote('tool'),
      args: "'{}'",
    }),
    fibers: () => Promise.resolve({ name: quote('fiber') }),
  }
  const columns = {
    id: quote(id),
    ...(await own[table]()),
    ...columnsOf(table, status),
    attempt: String(attempt),
  }
  await database.sql.unsafe(
    `insert into ai_db.${table} (${Object.keys(columns).join(', ')}) values (${Object.values(columns).join(', ')})`,
  )
  return id
}

async function move(table: Table, id: string, to: string, attempt: string): Promise<void> {
  const columns = { ...columnsOf(table, to), attempt }
  const set = Object.entries(columns).map(([name, value]) => `${name} = ${value}`)
  const moved = await database.sql.unsafe(
    `update ai_db.${table} set ${set.join(', ')} where id = '${id}' returning id`,
  )
  expect(moved).toHaveLength(1)
}

/** The legal way into each status, from the insert on. */
const way: Readonly<Record<string, readonly string[]>> = {
  pending: [],
  held: ['held'],
  waiting: ['held', 'waiting'],
  completed: ['held', 'completed'],
  failed: ['held', 'failed'],
  cancelled: ['held', 'cancelled'],
  're-pending': ['held', 'pending'],
}

async function bring(table: Table, status: string): Promise<string> {
  const id = await insert(table)
  for (const step of way[status === heldStatus(table) ? 'held' : status]!) {
    const to = step === 'held' ? heldStatus(table) : step
    await move(table, id, to, step === 'held' ? 'attempt + 1' : 'attempt')
  }
  return id
}

async function rowOf(table: Table, id: string) {
  const [row] = await database.sql.unsafe<{ status: string; attempt: number }[]>(
    `select status, attempt from ai_db.${table} where id = '${id}'`,
  )
  return row!
}

const refused = { code: 'AI001' }

describe.each(machines)('%s', (table, transitions, initial) => {
  const held = heldStatus(table)
  const statuses = Object.keys(transitions)
  const cells = statuses.flatMap((from) =>
    statuses.map((to) => ({ from, to, allowed: transitions[from]![to]! })),
  )
  // A row that was begun and given back is pending too, and its way out is the same.
  const again = cells.filter(({ from }) => from === 'pending')
  const all = [...cells, ...again.map((cell) => ({ ...cell, from: 're-pending' }))]

  it.each(all.filter(({ allowed }) => allowed))('moves $from → $to', async ({ from, to }) => {
    const id = await bring(table, from)
    const claims = to === held && from !== held
    await move(table, id, to, claims ? 'attempt + 1' : 'attempt')
    expect((await rowOf(table, id)).status).toBe(to)
  })

  it.each(all.filter(({ allowed }) => !allowed))(
    'refuses $from → $to from any writer, and leaves the row as it was',
    async ({ from, to }) => {
      const id = await bring(table, from)
      const before = await rowOf(table, id)
      const attempt = to === held ? 'attempt + 1' : 'attempt'
      await expect(move(table, id, to, attempt)).rejects.toMatchObject(refused)
      expect(await rowOf(table, id)).toEqual(before)
    },
  )

  it.each(Object.entries(initial))('insert as %s allowed: %s', async (status, allowed) => {
    const born = insert(table, status, status === held ? 1 : 0)
    if (allowed) expect((await rowOf(table, await born)).status).toBe(status)
    else await expect(born).rejects.toMatchObject(refused)
  })

  it.each(['attempt', 'attempt + 2', 'attempt - 1'])(
    'refuses a claim that sets attempt = %s: the fence would not move by one',
    async (attempt) => {
      const id = await bring(table, 're-pending')
      await expect(move(table, id, held, attempt)).rejects.toMatchObject(refused)
      expect(await rowOf(table, id)).toEqual({ status: 'pending', attempt: 1 })
    },
  )

  it('adds exactly one to attempt with each claim', async () => {
    const id = await bring(table, 're-pending')
    await move(table, id, held, 'attempt + 1')
    expect(await rowOf(table, id)).toEqual({ status: held, attempt: 2 })
  })

  it.each(statuses)(
    'refuses to change attempt of a %s row without a claim, up or down',
    async (status) => {
      const id = await bring(table, status)
      for (const attempt of ['attempt + 1', 'attempt - 1', '0', '99']) {
        const before = await rowOf(table, id)
        if (attempt === String(before.attempt)) continue
        await expect(move(table, id, status, attempt)).rejects.toMatchObject(refused)
      }
    },
  )

  it.each(['pending', 'completed', 'failed', 'cancelled'])(
    'refuses to take attempt along when a held row becomes %s',
    async (to) => {
      const id = await bring(table, held)
      await expect(move(table, id, to, '0')).rejects.toMatchObject(refused)
      await expect(move(table, id, to, 'attempt + 1')).rejects.toMatchObject(refused)
    },
  )

  it('says what to do in a hint, and keeps updated_at itself', async () => {
    const id = await bring(table, 'completed')
    const thrown = await move(table, id, 'pending', 'attempt').catch((error: unknown) => error)
    expect(thrown).toMatchObject({ hint: expect.stringContaining('docs/spec.md') as string })
    await database.sql.unsafe(`update ai_db.${table} set updated_at = 'epoch' where id = '${id}'`)
    const [row] = await database.sql.unsafe<{ fresh: boolean }[]>(
      `select updated_at > now() - interval '1 minute' as fresh from ai_db.${table} where id = '${id}'`,
    )
    expect(row!.fresh).toBe(true)
  })
})

describe('rows the status does not guard', () => {
  it('a generation cannot be inserted with an attempt: a fence nobody claimed', async () => {
    await expect(insert('generations', 'pending', 1)).rejects.toMatchObject(refused)
  })

  it('args_hash is always that of the arguments, whoever writes it', async () => {
    const id = await insert('tool_calls')
    const hash = async () => {
      const [row] = await database.sql<{ agrees: boolean }[]>`
        select args_hash = encode(sha256(convert_to(args::text, 'UTF8')), 'hex') as agrees
        from ai_db.tool_calls where id = ${id}`
      return row!.agrees
    }
    await database.sql`update ai_db.tool_calls set args_hash = 'forged' where id = ${id}`
    expect(await hash()).toBe(true)
    await database.sql`update ai_db.tool_calls set args = '{"q": 2}' where id = ${id}`
    expect(await hash()).toBe(true)
  })

  it('an approval cannot be changed afterwards', async () => {
    const id = await insert('tool_calls')
    await database.sql`
      insert into ai_db.approvals (tool_call_id, session_id, action, actor_id, args_hash)
      values (${id}, ${id}, 'requested', 'ann', 'x')`
    const change = database.sql`update ai_db.approvals set action = 'denied' where tool_call_id = ${id}`
    await expect(change).rejects.toMatchObject(refused)
  })
})
