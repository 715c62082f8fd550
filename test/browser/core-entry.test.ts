/**
 * The core entry where it has to run: in a page and in a Web Worker of a real browser. It is bundled as an app bundles it,
 * nothing left out and nothing of Node put in, and executes a durable tool's call over local-only collections.
 */
import { createServer } from 'node:http'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { noChromium, useBrowser } from '../support/browser.js'

/** Runs in the browser: what it finds is posted, or put where the page is looked at. */
const PROGRAM = `
  import { toolDefinition } from '@tanstack/ai'
  import { createCollection, eq, localOnlyCollectionOptions } from '@tanstack/db'
  import { z } from 'zod'
  import { chunksToText, createToolExecutionEffect, makeDurableTool, streamToCollection } from './src/index.js'

  const add = toolDefinition({
    name: 'add',
    description: 'Adds',
    inputSchema: z.object({ a: z.number(), b: z.number() }),
    outputSchema: z.object({ sum: z.number() }),
  })
  const local = (id) => createCollection(localOnlyCollectionOptions({ id, getKey: (row) => row.id }))

  async function run() {
    const calls = local('calls')
    const chunks = local('chunks')
    const change = (row, changes) => calls.update(row.id, (draft) => void Object.assign(draft, changes))
    const effect = createToolExecutionEffect({
      query: (q) => q.from({ call: calls }).where(({ call }) => eq(call.status, 'pending')),
      tools: [add],
      implementations: { add: ({ a, b }) => ({ sum: a + b }) },
      onExecuting: (row) => change(row, { status: 'executing' }),
      onComplete: (row, result) => change(row, { status: 'completed', result }),
      onError: (row, error) => change(row, { status: 'failed', error: error.message }),
    })
    const tool = makeDurableTool(add, calls, {
      transform: (call) => ({ ...call, status: 'pending' }),
      isComplete: (row) => row.status === 'completed',
      getResult: (row) => row.result,
      timeout: 20_000,
    })
    const { sum } = await tool.execute({ a: 40, b: 2 }, { toolCallId: 'call' })
    await streamToCollection(words(), {
      collection: chunks,
      generationId: 'g',
      transform: (chunk, index, generationId) =>
        ({ id: generationId + index, generationId, index, content: chunk.delta }),
    })
    await effect.dispose()
    return { sum, text: chunksToText(chunks.values()), where: globalThis.constructor.name }
  }

  async function* words() {
    for (const delta of ['Forty', '-two'])
      yield { type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta }
  }

  const told = run().catch((error) => ({ error: String(error && error.stack) }))
  if (typeof document === 'undefined') void told.then((result) => postMessage(result))
  else globalThis.told = told
`

describe.skipIf(noChromium)(`the core entry in a browser ${noChromium ?? ''}`, () => {
  const browser = useBrowser()
  let script = ''
  let url = ''
  const server = createServer((request, response) => {
    const isScript = request.url === '/program.js'
    const type = isScript ? 'text/javascript' : 'text/html'
    response.writeHead(200, { 'content-type': `${type}; charset=utf-8` })
    response.end(isScript ? script : '<!doctype html><link rel="icon" href="data:,">')
  })

  beforeAll(async () => {
    const bundled = await build({
      stdin: { contents: PROGRAM, resolveDir: fileURLToPath(new URL('../..', import.meta.url)) },
      bundle: true,
      write: false,
      format: 'esm',
      platform: 'browser',
      target: 'es2022',
      logLevel: 'error',
    })
    script = bundled.outputFiles[0]!.text
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    url = `http://127.0.0.1:${(server.address() as { port: number }).port}`
  })
  afterAll(() => {
    server.closeAllConnections()
    server.close()
  })

  it('runs in a page: a durable tool’s call is a row, executed, and its result comes back', async () => {
    const page = await (await browser.newPerson()).newPage()
    await page.goto(url)
    await page.addScriptTag({ url: '/program.js', type: 'module' })
    await page.waitForFunction(() => 'told' in globalThis)
    const told = await page.evaluate(() => (globalThis as unknown as { told: unknown }).told)
    expect(told).toEqual({ sum: 42, text: 'Forty-two', where: 'Window' })
  })

  it('runs in a Web Worker all the same', async () => {
    const page = await (await browser.newPerson()).newPage()
    await page.goto(url)
    const told = await page.evaluate(
      () =>
        new Promise((resolve, reject) => {
          const worker = new Worker('/program.js', { type: 'module' })
          worker.onmessage = ({ data }) => resolve(data)
          worker.onerror = ({ message }) => reject(new Error(message))
        }),
    )
    expect(told).toEqual({ sum: 42, text: 'Forty-two', where: 'DedicatedWorkerGlobalScope' })
  })
})
