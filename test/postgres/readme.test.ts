/** The README's twenty lines run, as they stand there: only the model and the package's address are put in. */
import { execFile } from 'node:child_process'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, expect, inject, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/database.js'

const ANSWER = 'Air scatters blue light more than red.'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase({ migrated: false })
})

function replaced(code: string, what: string, by: string): string {
  if (!code.includes(what)) throw new Error(`The README no longer says: ${what}`)
  return code.replace(what, by)
}

test('migrates, starts a worker, sends a message, and prints the answer as it comes', async () => {
  const readme = await readFile('README.md', 'utf8')
  let code = /```ts\n([^]*?)```/.exec(readme)![1]!
  code = replaced(code, `'electric-ai-db/server'`, JSON.stringify(resolve('src/server.ts')))
  code = replaced(
    code,
    `import { openaiText } from '@tanstack/ai-openai'`,
    `import { scriptedAdapter } from ${JSON.stringify(resolve('src/testing.ts'))}
     const openaiText = (_model: string) => scriptedAdapter({ turns: [{ text: ${JSON.stringify(ANSWER)} }] })`,
  )
  // At the end the script's pool would stay open, as a server's does.
  code += `\nawait worker.stop()\nawait db.$client.end()\n`
  const folder = resolve('node_modules/.cache', `readme-${process.pid}`)
  await mkdir(folder, { recursive: true })
  try {
    await writeFile(`${folder}/readme.mts`, code)
    const env = { ...process.env, DATABASE_URL: database.url, STREAMS_URL: inject('streamsUrl') }
    const run = promisify(execFile)(process.execPath, ['--import', 'tsx', `${folder}/readme.mts`], {
      env,
    })
    expect((await run).stdout).toBe(ANSWER)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})
