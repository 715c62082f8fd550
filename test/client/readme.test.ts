/** The README's lines for a browser run, as they stand there: only the page around them is put in. */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import type { ChatSession, MessageRecord } from '../../src/client.js'
import { pollUntil } from '../support/poll-until.js'
import { scripted, startWorker } from '../worker/turn-world.js'
import { createClientWorld, type ClientWorld } from './client-world.js'

let world: ClientWorld
beforeAll(async () => {
  world = await createClientWorld()
})

interface Page {
  sessionId: string
  render(messages: MessageRecord[]): void
  show(text: string): void
}

function replaced(code: string, what: string, by: string): string {
  if (!code.includes(what)) throw new Error(`The README no longer says: ${what}`)
  return code.replace(what, by)
}

test('opens a session, shows rows and text as they come, and sends', async () => {
  const readme = await readFile('README.md', 'utf8')
  const section = readme.slice(readme.indexOf('## Sync to the browser'))
  let code = /```ts\n([^]*?)```/.exec(section)![1]!
  const client = JSON.stringify(resolve('src/client.ts'))
  code = replaced(code, `import { openSession } from 'electric-ai-db/client'`, '')
  code = replaced(code, `'/ai'`, JSON.stringify(`${world.gate.url}/ai`))
  const folder = resolve('node_modules/.cache', `readme-client-${process.pid}`)
  await mkdir(folder, { recursive: true })
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  await writeFile(
    `${folder}/page.ts`,
    `import { openSession } from ${client}
     export async function run({ sessionId, render, show }: any) {\n${code}\nreturn session }`,
  )
  const { run } = (await import(pathToFileURL(`${folder}/page.ts`).href)) as {
    run(page: Page): Promise<ChatSession>
  }
  const { agent } = scripted([{ text: 'Air scatters blue light more than red.' }])
  const { db, schema } = world.database
  await startWorker({ db, schema, agents: [agent] })
  let rows: string[] = []
  let shown = ''
  const session = await run({
    sessionId: await world.newSession(),
    render: (messages) => (rows = messages.map(({ content }) => content)),
    show: (text) => (shown = text),
  })
  onTestFinished(() => session.close())
  expect(rows).toContain('Why is the sky blue?')
  await pollUntil('the answer', () => rows.length === 2 && shown !== '')
  expect(rows).toContain('Air scatters blue light more than red.')
  await pollUntil('the whole text', () => shown === 'Air scatters blue light more than red.')
})
