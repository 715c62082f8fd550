/**
 * The bootstrap behind `npm run demo`, `npm test` and `npm run bench`: a fresh clone needs no
 * separate install. Checks Node, installs when node_modules does not hold what package-lock.json
 * asks for, then runs the command from node_modules/.bin as if it had been called directly.
 *
 *     node scripts/run.mjs <command> [arguments…]
 *
 * Plain Node without a dependency: it runs before there are any.
 */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const OLDEST_NODE = [20, 19]
const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const asked = join(root, 'package-lock.json')
const installed = join(root, 'node_modules', '.package-lock.json')
const onWindows = process.platform === 'win32'

checkNode()
const [command, ...args] = process.argv.slice(2)
if (command === undefined) fail('Usage: node scripts/run.mjs <command> [arguments…]', 2)
if (!isInstalled()) await install()
run(command, args)

function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  const [oldestMajor, oldestMinor] = OLDEST_NODE
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return
  const oldest = OLDEST_NODE.join('.')
  fail(
    `This project needs Node ${oldest} or newer and this is ${process.version}. Install Node 20.`,
  )
}

/** A newer lock file alone proves nothing (a checkout touches it), so then the contents decide. */
function isInstalled() {
  if (!existsSync(installed)) return false
  return statSync(installed).mtimeMs >= statSync(asked).mtimeMs || holdsWhatIsAsked()
}

function holdsWhatIsAsked() {
  const have = packagesOf(installed)
  return Object.entries(packagesOf(asked)).every(([path, wanted]) => {
    if (path === '') return true
    const found = have[path]
    if (found === undefined) return wanted.optional === true || wanted.peer === true
    return found.version === wanted.version && found.integrity === wanted.integrity
  })
}

function packagesOf(lockFile) {
  return JSON.parse(readFileSync(lockFile, 'utf8')).packages
}

/** One install at a time: two terminals that start the demo in a fresh clone must not both run it. */
async function install() {
  const lock = join(root, '.electric-ai-db', 'installing')
  mkdirSync(dirname(lock), { recursive: true })
  while (!takeLock(lock)) await delay(200)
  try {
    if (isInstalled()) return
    console.error('Installing the packages of package-lock.json with npm ci …')
    const flags = ['ci', '--include=dev', '--include=optional', '--no-audit', '--no-fund']
    const result = npm(flags)
    if (result.error) fail(`npm could not be started: ${result.error.message}. Install npm.`)
    if (result.status !== 0) fail('npm ci failed. Fix what it says above, then run this again.')
  } finally {
    rmSync(lock, { force: true })
  }
}

function takeLock(lock) {
  try {
    writeFileSync(lock, String(process.pid), { flag: 'wx' })
    return true
  } catch (thrown) {
    if (thrown.code !== 'EEXIST') throw thrown
    if (!isOwned(lock)) rmSync(lock, { force: true })
    return false
  }
}

function isOwned(lock) {
  try {
    const pid = Number(readFileSync(lock, 'utf8'))
    // Empty for the blink between its creation and its content.
    return pid === 0 || process.kill(pid, 0)
  } catch (thrown) {
    return thrown.code === 'EPERM'
  }
}

/** The npm that called us where there is one, so that its version is the one the user chose. */
function npm(flags) {
  const caller = process.env.npm_execpath ?? ''
  const options = { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] }
  if (/npm-cli\.c?js$/.test(caller)) return spawnSync(process.execPath, [caller, ...flags], options)
  return spawnSync('npm', flags, { ...options, shell: onWindows })
}

function run(name, argv) {
  const child = spawn(locate(name), argv, { stdio: 'inherit', shell: onWindows })
  // Ctrl-C in a terminal reaches the child by itself; a second copy would read as impatience.
  const forwardInterrupt = process.stdin.isTTY !== true
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {
      if (signal !== 'SIGINT' || forwardInterrupt) child.kill(signal)
    })
  }
  child.on('error', (error) => fail(`${name} could not be started: ${error.message}. Run: npm ci`))
  child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]))
}

function locate(name) {
  if (name === 'node') return process.execPath
  const binary = join(root, 'node_modules', '.bin', onWindows ? `${name}.cmd` : name)
  if (existsSync(binary)) return binary
  return fail(`There is no ${name} in node_modules/.bin. Run: npm ci`)
}

function fail(message, code = 1) {
  console.error(message)
  process.exit(code)
}
