/** The production stack's file: what `docker compose` says of it, and that nothing in it moves by itself. */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'

const FILES = ['-f', 'docker-compose.yml']
const PORTS = [...FILES, '-f', 'test/support/docker-compose.ports.yml']

/** `docker compose`, or the older program of its own; undefined when neither is installed. */
const compose = [['docker', 'compose'], ['docker-compose']].find(
  ([program, ...rest]) => spawnSync(program!, [...rest, 'version']).status === 0,
)

function config(args: readonly string[], env: Record<string, string> = {}) {
  const [program, ...rest] = compose!
  return spawnSync(program!, [...rest, ...args, 'config'], {
    encoding: 'utf8',
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
  })
}

const SECRETS = { POSTGRES_PASSWORD: 'p', ELECTRIC_SECRET: 's' }
const text = readFileSync('docker-compose.yml', 'utf8')

describe('docker-compose.yml', { timeout: 60_000 }, () => {
  test.for([
    ['alone', FILES],
    ['with the ports of a test run', PORTS],
  ] as const)('%s is valid', ([, files], { skip }) => {
    if (!compose) skip('skipped: neither docker compose nor docker-compose is installed')
    const { status, stderr } = config(files, SECRETS)
    expect(stderr).not.toMatch(/error|warning/i)
    expect(status).toBe(0)
  })

  test.for(Object.keys(SECRETS))('without %s it does not start, and says why', (name, { skip }) => {
    if (!compose) skip('skipped: neither docker compose nor docker-compose is installed')
    const { status, stderr } = config(FILES, { ...SECRETS, [name]: '' })
    expect(status).not.toBe(0)
    expect(stderr).toContain(`set ${name} in .env`)
  })

  test('pins every image to a version', () => {
    const images = [...text.matchAll(/^\s*image: (\S+)$/gm)].map(([, image]) => image!)
    expect(images.length).toBeGreaterThanOrEqual(4)
    for (const image of images) expect(image).toMatch(/:\d+\.\d+/)
  })

  test('publishes the app alone', () => {
    expect(text.match(/^\s*ports:/gm)).toHaveLength(1)
  })

  test('runs files that there are', () => {
    const scripts = [...text.matchAll(/examples\/chat\/production\/([a-z-]+)\.js/g)]
    expect(scripts.length).toBeGreaterThan(0)
    for (const [, name] of scripts) {
      expect(existsSync(`examples/chat/production/${name}.ts`), name).toBe(true)
    }
  })

  test('every variable it reads is in .env.example', () => {
    const example = readFileSync('.env.example', 'utf8')
    for (const [, name] of text.matchAll(/\$\{(\w+)/g)) expect(example).toContain(`${name}=`)
  })

  test('no secret is in the repository', () => {
    expect(execFileSync('git', ['check-ignore', '.env'], { encoding: 'utf8' })).toContain('.env')
  })
})
