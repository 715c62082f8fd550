/** The demo as a person starts it: the real command, in a process group of its own and its own directory. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { get, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { makeTempDir } from '../support/stack.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const QUESTION = 'What is 17*23, and what time is it in Tokyo?'
/** No provider: the answer must be the offline model's. */
const NO_PROVIDER = { OPENAI_API_KEY: '', ANTHROPIC_API_KEY: '', OLLAMA_HOST: '' }

let dataDir: string
beforeAll(async () => {
  dataDir = await makeTempDir('demo')
})
afterAll(() => rm(dataDir, { recursive: true, force: true }))

function startDemo(...args: string[]) {
  const command = ['scripts/run.mjs', 'tsx', 'examples/chat/terminal.ts', ...args]
  const child = spawn(process.execPath, command, {
    cwd: ROOT,
    env: { ...process.env, ...NO_PROVIDER },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  const exited = once(child, 'exit') as Promise<[number | null, string | null]>
  const said: string[] = []
  child.stderr.setEncoding('utf8').on('data', (piece: string) => said.push(piece))
  const stderr = once(child.stderr, 'close').then(() => said.join(''))
  return { child, exited, stderr, said }
}

async function runDemo(...args: string[]) {
  const { child, exited, stderr } = startDemo(...args)
  const [stdout, errors, [code]] = await Promise.all([text(child.stdout), stderr, exited])
  const report = () => JSON.parse(stdout.trimEnd().split('\n').at(-1)!) as Record<string, unknown>
  return { code, stdout, stderr: errors, report, pid: child.pid! }
}

/** `fetch` would not send another host. */
async function statusFor(url: string, headers: Record<string, string>): Promise<number> {
  const [response] = (await once(get(url, { headers }), 'response')) as [IncomingMessage]
  response.resume()
  return response.statusCode!
}

/** Nothing that was started is left: not in the process group, and no Postgres either. */
async function expectNothingLeft(group: number): Promise<void> {
  const check = () => {
    expect(() => process.kill(-group, 0), `process group ${group}`).toThrow('ESRCH')
    expect(existsSync(join(dataDir, 'db', 'postgres', 'postmaster.pid')), 'Postgres').toBe(false)
  }
  await vi.waitFor(check, { timeout: 10_000, interval: 20 })
}

describe('npm run demo', () => {
  it('answers a question by two tool calls and leaves nothing running', async () => {
    const run = await runDemo('--ask', QUESTION, '--json', '--data-dir', dataDir)
    expect(run.code, run.stderr).toBe(0)
    expect(run.report()).toMatchObject({ generation: 'completed', toolCalls: 2 })
    const { text: answer, sqlRoundTrips } = run.report()
    expect(answer).toContain('391')
    expect(run.stdout).toContain(answer)
    expect(sqlRoundTrips).toBeLessThanOrEqual(4 + 2 * 3)
    await expectNothingLeft(run.pid)
  }, 60_000)

  it('goes on in mid-sentence in another process when the worker is killed', async () => {
    const run = await runDemo('--ask', QUESTION, '--kill', '--json', '--data-dir', dataDir)
    expect(run.code, run.stderr).toBe(0)
    expect(run.stderr).toMatch(/kill -9: worker \d \(pid \d+\)/)
    const { killToNextTokenMs, text: answer, ...report } = run.report()
    console.log(`kill -9 to the next token: ${String(killToNextTokenMs)} ms`)
    expect(report).toMatchObject({
      generation: 'completed',
      toolCalls: 2,
      lostChars: 0,
      duplicatedChars: 0,
      rewrites: 0,
      toolExecutions: 2,
      attempts: 2,
    })
    expect(killToNextTokenMs).toBeGreaterThan(0)
    // Under a second on a machine that does nothing else; other test files run beside this one.
    expect(killToNextTokenMs).toBeLessThan(5_000)
    expect(run.stdout).toContain(answer)
    await expectNothingLeft(run.pid)
  }, 60_000)

  it('denies what needs a person when there is none to ask, and ends', async () => {
    const run = await runDemo('--ask', 'Delete the file notes.txt', '--json', '--data-dir', dataDir)
    expect(run.code, run.stderr).toBe(0)
    expect(run.stderr).toContain('denied, as there is nobody to ask: delete_file')
    expect(run.report()).toMatchObject({ generation: 'completed', toolCalls: 1 })
    expect(run.stdout).toContain('denied by terminal')
  }, 60_000)

  it.each([
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const)('stops everything it started on %s in mid-answer', async (signal, expected) => {
    const { child, exited } = startDemo('--ask', 'Tell me a story.', '--data-dir', dataDir)
    await once(child.stdout, 'data')
    child.kill(signal)
    expect(await exited).toEqual([expected, null])
    await expectNothingLeft(child.pid!)
  })

  it('leaves no worker and no Postgres behind when it is killed itself', async () => {
    const tsx = ['--import', 'tsx', 'examples/chat/terminal.ts']
    const args = [...tsx, '--ask', 'Tell me a story.', '--data-dir', dataDir]
    const options = { cwd: ROOT, env: { ...process.env, ...NO_PROVIDER }, detached: true }
    const child = spawn(process.execPath, args, { ...options, stdio: ['ignore', 'pipe', 'ignore'] })
    await once(child.stdout, 'data')
    child.kill('SIGKILL')
    await expectNothingLeft(child.pid!)
  })

  it('serves the chat page to this machine alone, and stops it on SIGTERM', async () => {
    const args = ['--page', '--port', '0', '--data-dir', dataDir]
    const { child, exited, said } = startDemo(...args)
    const url = await vi.waitFor(() => /chat page: (\S+)/.exec(said.join(''))![1]!, 60_000)
    const page = await fetch(url)
    expect(await page.text()).toMatch(/<meta name="actor" content="guest-[0-9a-f]{16}" \/>/)
    expect(page.headers.get('content-security-policy')).toContain("default-src 'self'")
    const cookie = page.headers.get('set-cookie')!
    expect(cookie).toMatch(/HttpOnly; SameSite=Lax/)

    const list = `${url}/api/shapes/sessions?offset=-1`
    expect((await fetch(list)).status).toBe(401)
    expect((await fetch(list, { headers: { cookie: cookie.split(';')[0]! } })).status).toBe(200)
    expect((await fetch(`${url}/index.html`)).status).toBe(404)
    expect((await fetch(`${url}/%2e%2e/package.json`)).status).toBe(404)
    expect((await fetch(`${url}/demo/kill`, { method: 'POST', body: '{}' })).status).toBe(403)
    expect(await statusFor(url, { host: 'rebound.example' })).toBe(421)

    child.kill('SIGTERM')
    expect(await exited).toEqual([143, null])
    await expectNothingLeft(child.pid!)
  }, 90_000)

  it.each([
    [['--ask', ''], '--ask'],
    [[], 'no question'],
  ])('refuses %j with exit code 2 and names what is wrong', async (args, named) => {
    const { code, stdout, stderr } = await runDemo(...args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(named)
  })
})
