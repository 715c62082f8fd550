/**
 * Headless Chromium for tests: one browser per file, and pages whose console is part of the test. A page that
 * logs an error, throws, or is refused by its content security policy fails the test it was opened in.
 *
 * Chromium is CHROMIUM_PATH or Debian's. Where there is none, `noChromium` says so and files skip themselves.
 */
import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, vi } from 'vitest'

const EXECUTABLE = process.env.CHROMIUM_PATH || '/usr/bin/chromium'

/** Why browser tests are skipped; undefined where they run. For the title of the skipped. */
export const noChromium = existsSync(EXECUTABLE)
  ? undefined
  : `skipped: there is no Chromium at ${EXECUTABLE}; install it, or set CHROMIUM_PATH`

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** What tests wait for at most: everything runs on a busy machine, under two cores. */
export const PATIENCE_MS = 30_000

export interface TestBrowser {
  /** A person's browser: cookies of its own. Closed with the test. */
  newPerson(options?: Parameters<Browser['newContext']>[0]): Promise<BrowserContext>
  /** Console errors that fit are expected in this test. */
  allowErrors(fitting: RegExp): void
}

/** Registers start, stop and the check of every console. Call it in a `describe`. */
export function useBrowser(): TestBrowser {
  // Later than any wait of the page's, whose error says what was waited for.
  vi.setConfig({ testTimeout: 4 * PATIENCE_MS })
  let browser: Browser
  let contexts: BrowserContext[] = []
  let allowed: RegExp[] = []
  let problems: string[] = []

  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: EXECUTABLE, args: FLAGS })
  })
  afterAll(() => browser?.close())
  afterEach(async () => {
    await Promise.all(contexts.map((context) => context.close()))
    const unexpected = problems.filter((problem) => !allowed.some((one) => one.test(problem)))
    contexts = []
    allowed = []
    problems = []
    expect(unexpected, 'errors in the consoles of the pages').toEqual([])
  })

  return {
    newPerson: async (options) => {
      const context = await browser.newContext({ locale: 'en-GB', ...options })
      context.setDefaultTimeout(PATIENCE_MS)
      context.on('page', (page) => watchConsole(page, (problem) => problems.push(problem)))
      contexts.push(context)
      return context
    },
    allowErrors: (fitting) => void allowed.push(fitting),
  }
}

function watchConsole(page: Page, tell: (problem: string) => void): void {
  page.on('pageerror', (error) => tell(`uncaught: ${error.message}`))
  page.on('console', (message) => {
    if (message.type() === 'error') tell(`${message.text()} (${message.location().url})`)
  })
}

/** Writes a picture where SCREENSHOTS names a folder; for people to look at. */
export async function takeScreenshot(page: Page, name: string): Promise<void> {
  const folder = process.env.SCREENSHOTS
  if (!folder) return
  await mkdir(folder, { recursive: true })
  await page.screenshot({ path: join(folder, `${name}.png`) })
}
