/** Two copies of @tanstack/db in one process: an error at once, at every primitive that is given a collection. */
import { cpSync, realpathSync, rmSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type * as installedDb from '@tanstack/db'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  createToolExecutionEffect,
  makeAsyncTool,
  makeDurableTool,
  makeDurableTools,
  waitForToolResult,
} from '../../src/index.js'
import { durableOptions, localWorld, searchTool } from './tool-world.js'

const installed = realpathSync(
  fileURLToPath(new URL('../../node_modules/@tanstack/db', import.meta.url)),
)
// Below node_modules, so that it finds its own packages.
const copy = fileURLToPath(
  new URL(`../../node_modules/.cache/second-db-${process.pid}`, import.meta.url),
)
let other: typeof installedDb

beforeAll(async () => {
  cpSync(installed, copy, { recursive: true, filter: (path) => !path.includes('/src/') })
  other = (await import(
    /* @vite-ignore */ pathToFileURL(`${copy}/dist/esm/index.js`).href
  )) as typeof other
})
afterAll(() => rmSync(copy, { recursive: true, force: true }))

const collectionOfTheOther = () =>
  other.createCollection(
    other.localOnlyCollectionOptions<never, string>({
      id: 'other',
      getKey: (row: { id: string }) => row.id,
    }),
  ) as never

test('the error names the option, what it costs, and the cure', async () => {
  const theirs = collectionOfTheOther()
  const ours = (await localWorld()).toolCalls
  const copies = expect.objectContaining({
    code: 'INVALID_OPTION',
    message: expect.stringMatching(
      /another copy of @tanstack\/db .*npm ls @tanstack\/db/,
    ) as string,
  }) as Error
  expect(() => makeDurableTool(searchTool, theirs, durableOptions as never)).toThrow(copies)
  expect(() => makeDurableTools([searchTool], theirs, durableOptions as never)).toThrow(copies)
  expect(() => makeAsyncTool(searchTool, theirs, {} as never)).toThrow(copies)
  await expect(
    waitForToolResult(
      theirs,
      'a' as never,
      () => true,
      (row) => row,
    ),
  ).rejects.toThrow(copies)
  const effect = (options: object) => () =>
    createToolExecutionEffect({
      tools: [searchTool],
      implementations: { searchDatabase: () => ({ results: [] }) },
      ...options,
    } as never)
  expect(effect({ query: (q: any) => q.from({ tc: theirs }) })).toThrow(copies)
  expect(effect({ query: new other.Query().from({ tc: theirs }) })).toThrow(copies)
  expect(effect({ query: (q: any) => q.from({ tc: ours }), generations: theirs })).toThrow(copies)
})
