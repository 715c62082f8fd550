/**
 * Fails when `drizzle/` is not what drizzle-kit would generate from src/schema.ts.
 *
 * drizzle-kit runs on a copy of the folder. A file it adds or changes is the diff between schema and
 * migrations, and is printed. It asks a person whether a column was renamed or replaced; here nobody
 * answers, and that question counts as a difference too.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const committed = join(root, 'drizzle')
const scratch = mkdtempSync(join(tmpdir(), 'electric-ai-db-drizzle-'))
const generated = join(scratch, 'drizzle')

try {
  if (existsSync(committed)) cpSync(committed, generated, { recursive: true })
  const output = generate()
  const changes = changedFiles()
  for (const name of changes.filter((one) => one.endsWith('.sql'))) {
    console.error(`\n+ drizzle/${name}\n${readFileSync(join(generated, name), 'utf8')}`)
  }
  if (changes.length > 0 || !output.includes('No schema changes')) {
    if (changes.length === 0) console.error(output)
    console.error(
      'src/schema.ts and drizzle/ differ: run `npm run db:generate` and commit the result.',
    )
    process.exitCode = 1
  } else {
    console.log('drizzle/ is what src/schema.ts generates.')
  }
} finally {
  rmSync(scratch, { recursive: true, force: true })
}

/** drizzle-kit takes its output folder relative to the working directory, with `/` between. */
function generate() {
  const out = relative(root, generated).split(sep).join('/')
  const bin = join(root, 'node_modules/drizzle-kit/bin.cjs')
  const options = [
    'generate',
    '--dialect',
    'postgresql',
    '--schema',
    './src/schema.ts',
    '--out',
    out,
  ]
  const run = spawnSync(process.execPath, [bin, ...options], {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 60_000,
  })
  return `${run.stdout}${run.stderr}`
}

function changedFiles() {
  const [before, after] = [filesOf(committed), filesOf(generated)]
  const names = new Set([...before.keys(), ...after.keys()])
  return [...names].filter((name) => before.get(name) !== after.get(name)).sort()
}

function filesOf(folder) {
  if (!existsSync(folder)) return new Map()
  const names = readdirSync(folder, { recursive: true, withFileTypes: true })
  const paths = names.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name))
  return new Map(paths.map((path) => [relative(folder, path), readFileSync(path, 'utf8')]))
}
