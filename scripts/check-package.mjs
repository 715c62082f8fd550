/**
 * Is the package that would be published usable? Builds, packs, and then asks of the tarball:
 *
 * 1. publint and attw: do the exports map, the files and the types agree?
 *    attw runs with `--profile esm-only`: the package is ESM, and `require` of it works by Node's own
 *    require(esm), which every Node in `engines` has (>= 20.19). TypeScript's CommonJS mode reports
 *    that as an error all the same. `./schema` alone has a CommonJS build, for drizzle-kit.
 * 2. Are the files there that the library reads at run time?
 * 3. Does every entry load from a host app, and can its drizzle-kit generate our tables?
 * 4. Are the browser entries free of server packages, in their code and in their types?
 */
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const root = fileURLToPath(new URL('..', import.meta.url))
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const name = manifest.name
const scratch = mkdtempSync(join(tmpdir(), `${name}-package-`))
const host = join(scratch, 'host')
const installed = join(host, 'node_modules', name)
const failures = []

const browserEntries = ['index', 'client']
const serverOnly = /^(drizzle-orm|postgres|pg)(\/|$)|^node:/
const requiredFiles = ['README.md', 'LICENSE', 'CHANGELOG.md', 'drizzle/meta/_journal.json']

try {
  run('npm', ['run', 'build', '--silent'], root)
  const tarball = pack()
  check('publint', () => tool('publint', [tarball, '--strict']))
  check('attw', () => tool('attw', [tarball, '--profile', 'esm-only', '--no-emoji']))
  installInHost(tarball)
  check('files', checkFiles)
  check('entries load', checkEntries)
  check('drizzle-kit in a host', checkHostSchema)
  check('browser entries', checkBrowserEntries)
} finally {
  rmSync(scratch, { recursive: true, force: true })
}
if (failures.length > 0) {
  console.error(`\nThe package is not fit to publish: ${failures.join(', ')}.`)
  process.exitCode = 1
}

function check(title, body) {
  try {
    body()
    console.log(`ok   ${title}`)
  } catch (error) {
    failures.push(title)
    console.error(
      `FAIL ${title}\n${error.stdout ?? ''}${error.stderr ?? ''}${error.stack ?? error}`,
    )
  }
}

function run(command, args, cwd, stdio = 'pipe') {
  return execFileSync(command, args, { cwd, stdio, encoding: 'utf8' })
}

function tool(bin, args) {
  return run(process.execPath, [join(root, 'node_modules/.bin', bin), ...args], root)
}

function pack() {
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', scratch]
  const [packed] = JSON.parse(run('npm', args, root))
  console.log(`${packed.filename}: ${packed.files.length} files, ${packed.size} bytes`)
  return join(scratch, packed.filename)
}

/** A host app whose node_modules are ours by link, so that nothing is downloaded. */
function installInHost(tarball) {
  mkdirSync(installed, { recursive: true })
  run('tar', ['-xzf', tarball, '--strip-components=1', '-C', installed], scratch)
  for (const entry of readdirSync(join(root, 'node_modules'))) {
    if (entry === name || entry.startsWith('.')) continue
    symlinkSync(join(root, 'node_modules', entry), join(host, 'node_modules', entry), 'junction')
  }
  writeFileSync(join(host, 'package.json'), '{ "name": "host", "type": "module" }')
  writeFileSync(join(host, 'schema.ts'), `export * from '${name}/schema'\n`)
}

function checkFiles() {
  const migrations = readdirSync(join(root, 'migrations')).map((file) => `migrations/${file}`)
  const all = [...requiredFiles, ...migrations, ...Object.values(manifest.bin)]
  const missing = all.filter((file) => !existsSync(join(installed, file)))
  if (missing.length > 0) throw new Error(`not in the package: ${missing.join(', ')}`)
}

function checkEntries() {
  const specifiers = Object.keys(manifest.exports)
    .filter((path) => path !== './package.json')
    .map((path) => name + path.slice(1))
  for (const specifier of specifiers) {
    node('module', `await import('${specifier}')`)
    node('commonjs', `require('${specifier}')`)
  }
  run(process.execPath, [join(installed, Object.values(manifest.bin)[0]), '--help'], host)
}

function node(type, code) {
  run(process.execPath, [`--input-type=${type}`, '--eval', code], host)
}

function checkHostSchema() {
  const kit = join(host, 'node_modules/drizzle-kit/bin.cjs')
  const options = ['--dialect', 'postgresql', '--schema', './schema.ts', '--out', './drizzle']
  const output = run(process.execPath, [kit, 'generate', ...options], host)
  const file = existsSync(join(host, 'drizzle'))
    ? readdirSync(join(host, 'drizzle')).find((one) => one.endsWith('.sql'))
    : undefined
  const sql = file === undefined ? '' : readFileSync(join(host, 'drizzle', file), 'utf8')
  for (const statement of ['CREATE SCHEMA', '"messages"', '"generations"', '"workers"']) {
    if (!sql.includes(statement))
      throw new Error(`${statement} was not generated:\n${output}${sql}`)
  }
}

function checkBrowserEntries() {
  const found = browserEntries.flatMap((entry) =>
    [`dist/${entry}.js`, `dist/${entry}.d.ts`].flatMap((file) =>
      serverImports(join(installed, file)),
    ),
  )
  if (found.length > 0) throw new Error(found.join('\n'))
}

/** One line per server package in the graph of a built file. */
function serverImports(entry) {
  if (!existsSync(entry)) return []
  const chains = new Map([[entry, entry.slice(installed.length + 1)]])
  const found = []
  for (const [file, chain] of chains) {
    for (const { fileName } of ts.preProcessFile(readFileSync(file, 'utf8'), true, true)
      .importedFiles) {
      if (serverOnly.test(fileName)) found.push(`${chain} → ${fileName}`)
      if (!fileName.startsWith('.')) continue
      const next = builtFile(file, fileName)
      if (!chains.has(next)) chains.set(next, `${chain} → ${fileName}`)
    }
  }
  return found
}

/** `./chunk.js` as a declaration file means `./chunk.d.ts`. */
function builtFile(from, specifier) {
  const file = resolve(dirname(from), specifier)
  return from.endsWith('.d.ts') ? file.replace(/\.js$/, '.d.ts') : file
}
