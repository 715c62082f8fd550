/**
 * The demo as a test runs it: its own web server, page and worker processes, on a database and a sync server of
 * the file's own. And what people do on the page, by the names that assistive technology has for things.
 */
import type { BrowserContext, Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, inject } from 'vitest'
import { buildPage } from '../../examples/chat/build-page.js'
import { startWebServer, type WebServer } from '../../examples/chat/web-server.js'
import { WorkerProcesses } from '../../examples/chat/worker-processes.js'
import { createSyncedDatabase, type SyncedDatabase } from '../support/synced-database.js'

export interface PageWorld {
  database: SyncedDatabase
  workers: WorkerProcesses
  web: WebServer
  /** What broke behind requests, as the handler was told. */
  failures: unknown[]
}

/** Call it in a `describe`; the world is there from `beforeAll` on. */
export function usePageWorld(): PageWorld {
  const world = {} as PageWorld
  beforeAll(async () => {
    // The answers must be the offline model's.
    for (const key of ['OPENAI_API_KEY', 'ANTHROPIC_API_KEY', 'OLLAMA_HOST'])
      delete process.env[key]
    const built = buildPage()
    const failures: unknown[] = []
    const database = await createSyncedDatabase()
    const { url: databaseUrl, schema, electricUrl, electricSecret } = database
    const workers = new WorkerProcesses(2)
    afterAll(() => workers.stop())
    const streamsUrl = inject('streamsUrl')
    workers.start({ databaseUrl, streamsUrl, schema })
    const web = await startWebServer({
      db: database.connect(),
      schema,
      electric: { url: electricUrl, ...(electricSecret && { secret: electricSecret }) },
      streamsUrl,
      workers,
      pageDirectory: (await built).directory,
      port: 0,
      onError: (error) => failures.push(error),
    })
    afterAll(() => web.stop())
    await workers.ready()
    Object.assign(world, { database, workers, web, failures })
  }, 120_000)
  return world
}

export const STORY = 'Tell me a story.'
export const SUM_AND_TIME = 'What is 17*23, and what time is it in Tokyo?'

/** Opens the page, or a chat in it. */
export async function openPage(person: BrowserContext, url: string): Promise<Page> {
  const page = await person.newPage()
  await page.goto(url)
  return page
}

export const messageBox = (page: Page) => page.getByRole('textbox', { name: 'Message' })

export async function say(page: Page, text: string): Promise<void> {
  await messageBox(page).fill(text)
  await page.getByRole('button', { name: 'Send' }).click()
}

/** Begins a chat, and waits until it has its link. */
export async function beginChat(page: Page, text: string): Promise<string> {
  await say(page, text)
  await page.waitForURL(/\?session=/)
  return page.url()
}

export const answers = (page: Page) => page.locator('.answer')
export const newestAnswer = (page: Page) => answers(page).last()

/** Waits until the nth answer (from 1) is whole. */
export async function wholeAnswer(page: Page, nth = 1): Promise<Locator> {
  const answer = answers(page).nth(nth - 1)
  await answer.and(page.locator('[data-status=completed]')).waitFor()
  return answer
}

/** Waits until some of the newest answer's text is there, and it is not over. */
export async function midSentence(page: Page, chars = 120): Promise<void> {
  await page.waitForFunction((wanted) => {
    const body = [...document.querySelectorAll('.answer[data-status=generating] .answer-body')].at(
      -1,
    )
    return (body?.textContent ?? '').length >= wanted
  }, chars)
}

/** What the thread says, in order: who, and the words. Without buttons and the like. */
export function threadText(page: Page): Promise<string[]> {
  return page.locator('.bubble, .answer .prose').allInnerTexts()
}

/**
 * Records the newest answer's text at every animation frame in which it differs, over reloads too. A `null`
 * stands for the beginning of a document.
 */
export async function recordAnswer(page: Page): Promise<(string | null)[]> {
  const texts: (string | null)[] = []
  await page.exposeFunction('recordText', (text: string | null) => void texts.push(text))
  await page.addInitScript(() => {
    const { recordText } = window as unknown as { recordText: (text: string | null) => void }
    let last = ''
    recordText(null)
    const look = () => {
      const text = [...document.querySelectorAll('.answer .answer-body')].at(-1)?.textContent ?? ''
      if (text !== last) recordText((last = text))
      requestAnimationFrame(look)
    }
    requestAnimationFrame(look)
  })
  return texts
}

/** The first text that is not a continuation of the one before it, with that one; undefined: it only ever grew. */
export function setback(texts: readonly (string | null)[]): [string, string] | undefined {
  for (const [index, text] of texts.entries()) {
    const before = index === 0 ? null : texts[index - 1]
    if (before != null && text !== null && !text.startsWith(before)) return [before, text]
  }
  return undefined
}
