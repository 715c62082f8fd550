/**
 * The example as its reader runs it: copied out, the package installed as built, its tables made by the
 * real drizzle-kit, the rest by the real CLI, against an empty database.
 */
import { execFile } from 'node:child_process'
import { cp, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { makeTempDir } from '../support/stack.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const execute = promisify(execFile)

interface Manifest {
  dependencies: Record<string, string>
  peerDependencies?: Record<string, string>
  devDependencies?: Record<string, string>
}

let database: TestDatabase
let app: string
beforeAll(async () => {
  database = await createTestDatabase({ migrated: false })
  app = await makeTempDir('host')
  await cp(join(root, 'examples/existing-drizzle-app'), app, {
    recursive: true,
    filter: (path) => !path.includes('node_modules'),
  })
  await install()
}, 120_000)
afterAll(() => rm(app, { recursive: true, force: true }))

const manifestAt = async (path: string) =>
  JSON.parse(await readFile(join(path, 'package.json'), 'utf8')) as Manifest

/** What `npm install` would leave: the app's packages, and ours as `npm pack` packs it. */
async function install(): Promise<void> {
  const [host, own] = [await manifestAt(app), await manifestAt(root)]
  const names = new Set([
    ...Object.keys({ ...host.dependencies, ...host.devDependencies }),
    ...Object.keys({ ...own.dependencies, ...own.peerDependencies }),
  ])
  names.delete('electric-ai-db')
  for (const name of names) {
    const target = join(app, 'node_modules', name)
    await mkdir(dirname(target), { recursive: true })
    await symlink(join(root, 'node_modules', name), target)
  }
  const installed = join(app, 'node_modules/electric-ai-db')
  await mkdir(installed)
  for (const part of ['package.json', 'drizzle', 'migrations']) {
    await cp(join(root, part), join(installed, part), { recursive: true })
  }
  const build = ['--no-dts', '--no-sourcemap', '--silent', '--out-dir', join(installed, 'dist')]
  await execute(process.execPath, [join(root, 'node_modules/tsup/dist/cli-default.js'), ...build], {
    cwd: root,
  })
}

/** Runs a program of the app as its scripts would. */
async function run(program: string, ...args: string[]): Promise<string> {
  const { stdout } = await execute(
    process.execPath,
    [join(app, 'node_modules', program), ...args],
    { cwd: app, env: { ...process.env, DATABASE_URL: database.url } },
  )
  return stdout
}

const drizzleKit = (verb: string) => run('drizzle-kit/bin.cjs', verb)
const cli = (...args: string[]) => run('electric-ai-db/dist/cli/main.js', ...args)

describe('an app that has Drizzle already', () => {
  it('is asked for its own migrations first, the missing columns named', async () => {
    await expect(cli('migrate', '--host-tables')).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/lacks sessions\.id.*drizzle-kit generate/) as string,
    })
  })

  it('takes the tables in through its own drizzle-kit, its foreign key to them included', async () => {
    await drizzleKit('generate')
    await drizzleKit('migrate')
    const tables = await database.sql<{ name: string }[]>`
      select table_schema || '.' || table_name as name from information_schema.tables
      where table_schema in ('public', 'ai_db') order by 1`
    expect(tables.map((row) => row.name)).toEqual(
      expect.arrayContaining(['ai_db.generations', 'ai_db.messages', 'public.customers']),
    )
    const [key] = await database.sql`
      select confrelid::regclass::text as target from pg_constraint
      where conrelid = 'customers'::regclass and contype = 'f'`
    expect(key).toEqual({ target: 'ai_db.sessions' })
  })

  it('is told of --host-tables when it forgets it', async () => {
    await expect(cli('migrate')).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringContaining('--host-tables') as string,
    })
  })

  it('gets guards, triggers and publication from the CLI, once', async () => {
    expect(await cli('migrate', '--host-tables')).toMatch(/applied migrations\/0001_/)
    expect(await cli('migrate', '--host-tables')).toBe('Up to date.\n')
  })

  it('writes its row and ours in one transaction, and joins them', async () => {
    expect(JSON.parse(await run('tsx/dist/cli.mjs', 'src/main.ts'))).toEqual([
      {
        customer: 'Ann',
        session: 'Support for Ann',
        said: 'Where is my parcel?',
        generation: 'pending',
      },
    ])
  })

  it('leaves drizzle-kit nothing to change: what we added is none of its business', async () => {
    expect(await drizzleKit('generate')).toContain('No schema changes')
    await writeFile(
      join(app, 'src/schema.ts'),
      (await readFile(join(app, 'src/schema.ts'), 'utf8')).replace(
        "name: text('name').notNull(),",
        "name: text('name').notNull(),\n  email: text('email'),",
      ),
    )
    await drizzleKit('generate')
    await drizzleKit('migrate')
    const [column] = await database.sql`
      select data_type from information_schema.columns
      where table_name = 'customers' and column_name = 'email'`
    expect(column).toEqual({ data_type: 'text' })
    expect(await cli('migrate', '--host-tables')).toBe('Up to date.\n')
  })
})
