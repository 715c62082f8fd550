/**
 * Does the library hold on the newest TanStack DB as well? It is developed on the set of versions that installs
 * as one copy by itself; a host may be on a newer one, which takes overrides (only a root package has them).
 *
 * Copies the work tree to a temporary folder, installs the newer set there, checks that there is one copy of each
 * package, and runs the type check and the suites that touch TanStack DB.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The second set: docs/decisions/0012-tanstack-db-versions.md. */
const NEWER = {
  '@tanstack/db': '0.15.2',
  '@tanstack/query-db-collection': '1.4.8',
  '@tanstack/react-db': '0.5.11',
  '@durable-streams/client': '0.2.7',
}
const ONE_COPY = ['@tanstack/db', '@durable-streams/client']
const SUITES = [
  'test/primitives',
  'test/types',
  'test/client/writes.test.ts',
  'test/client/sync.test.ts',
]

const root = fileURLToPath(new URL('..', import.meta.url))
const scratch = mkdtempSync(join(tmpdir(), 'electric-ai-db-newest-'))
// The embedded Postgres runs as another user when this runs as root.
chmodSync(scratch, 0o755)

try {
  copyTree()
  useNewerSet()
  step('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline', '--loglevel=error'])
  for (const name of ONE_COPY) requireOneCopy(name)
  step('npx', ['tsc', '-p', '.'])
  step('npx', ['vitest', 'run', ...SUITES.filter((path) => existsSync(join(root, path)))])
} finally {
  rmSync(scratch, { recursive: true, force: true })
}

/** What git knows and what it would take in: no build output, no packages. */
function copyTree() {
  const listed = execFileSync('git', ['ls-files', '-z', '-co', '--exclude-standard'], { cwd: root })
  for (const path of listed.toString().split('\0')) {
    if (path !== '' && existsSync(join(root, path))) cpSync(join(root, path), join(scratch, path))
  }
  // Tests read .gitignore through git.
  execFileSync('git', ['init', '-q'], { cwd: scratch })
}

function useNewerSet() {
  const file = join(scratch, 'package.json')
  const manifest = JSON.parse(readFileSync(file, 'utf8'))
  Object.assign(manifest.devDependencies, NEWER)
  manifest.overrides = Object.fromEntries(ONE_COPY.map((name) => [name, `$${name}`]))
  writeFileSync(file, JSON.stringify(manifest, null, 2))
}

function requireOneCopy(name) {
  const lock = JSON.parse(readFileSync(join(scratch, 'package-lock.json'), 'utf8'))
  const copies = Object.entries(lock.packages).filter(([path]) =>
    path.endsWith(`node_modules/${name}`),
  )
  const versions = copies.map(([path, { version }]) => `${version} in ${dirname(path)}`)
  if (copies.length !== 1 || copies[0][1].version !== NEWER[name]) {
    fail(`there must be one ${name} ${NEWER[name]}, and there is ${versions.join(', ')}`)
  }
}

function step(command, args) {
  const { status } = spawnSync(command, args, { cwd: scratch, stdio: 'inherit' })
  if (status !== 0) fail(`${command} ${args.join(' ')} failed on the newer set`)
}

function fail(message) {
  console.error(`check-newest-db: ${message}`)
  rmSync(scratch, { recursive: true, force: true })
  process.exit(1)
}
