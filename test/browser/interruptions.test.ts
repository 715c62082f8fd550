/**
 * What goes wrong while somebody reads or writes: reload, a killed worker, no network, a sync server that is
 * gone or has forgotten its shapes. The page must come back by itself, with nothing lost and nothing twice.
 */
import { afterAll, describe, expect, it } from 'vitest'
import { startSyncServer, type SyncServer } from '../../src/dev/sync-server/server.js'
import { noChromium, takeScreenshot, useBrowser } from '../support/browser.js'
import { pollUntil } from '../support/poll-until.js'
import { usesElectric } from '../support/synced-database.js'
import {
  answers,
  beginChat,
  midSentence,
  newestAnswer,
  openPage,
  recordAnswer,
  say,
  setback,
  STORY,
  threadText,
  usePageWorld,
  wholeAnswer,
} from './page-world.js'

/** The browser's own words about a request that the network, not a server, failed. */
const NO_NETWORK = /Failed to load resource: net::ERR_/

describe.skipIf(noChromium)(`an interrupted page ${noChromium ?? ''}`, () => {
  const browser = useBrowser()
  const world = usePageWorld()
  let restarted: SyncServer | undefined
  afterAll(() => restarted?.stop())

  const storedAnswer = async (): Promise<string> => {
    const { sql, schema } = world.database
    const [row] = await sql<{ content: string }[]>`
      select content from ${sql(schema)}.messages where role = 'assistant' order by seq desc limit 1`
    return row!.content
  }
  const shown = (texts: readonly (string | null)[]) => squeezed(texts.at(-1) ?? '')

  it('goes on in mid-sentence after a reload, without loss or repetition', async () => {
    const person = await browser.newPerson()
    const page = await person.newPage()
    const texts = await recordAnswer(page)
    await page.goto(world.web.url)
    await beginChat(page, STORY)
    await midSentence(page)
    await page.reload()
    await midSentence(page, 300)
    await page.reload()
    await wholeAnswer(page)
    const whole = squeezed(await storedAnswer())
    await pollUntil('the whole answer', () => shown(texts) === whole)

    expect(texts.filter((text) => text === null)).toHaveLength(3)
    expect(setback(texts)).toBeUndefined()
    // Each document begins with what the one before had shown, and does not type it again.
    const reloads = texts.flatMap((text, index) => (text === null && index > 0 ? [index] : []))
    for (const index of reloads) {
      expect(texts[index + 1]!.length).toBeGreaterThanOrEqual(texts[index - 1]!.length)
    }
  })

  it('survives kill -9 of its worker by the red button: same text, next token, measured time', async () => {
    const person = await browser.newPerson({ viewport: { width: 1280, height: 800 } })
    const page = await person.newPage()
    const texts = await recordAnswer(page)
    await page.goto(world.web.url)
    await beginChat(page, STORY)
    await page.getByRole('button', { name: 'Behind the scenes' }).click()
    await midSentence(page)
    await page.getByRole('button', { name: 'kill -9 the worker' }).click()
    const measured = page.getByRole('status').getByText(/^\d+ ms from kill to the next token$/)
    await measured.waitFor()
    await takeScreenshot(page, 'killed')
    expect(await newestAnswer(page).getAttribute('data-status')).toBe('generating')
    await wholeAnswer(page)
    const whole = squeezed(await storedAnswer())
    await pollUntil('the whole answer', () => shown(texts) === whole)
    expect(setback(texts)).toBeUndefined()

    const ms = Number.parseInt(await measured.innerText())
    console.log(`kill -9 by the button to the next token in the page: ${ms} ms`)
    expect(ms).toBeGreaterThan(0)
    const { sql, schema } = world.database
    const [row] = await sql`
      select attempt, status from ${sql(schema)}.generations order by created_at desc limit 1`
    expect(row).toMatchObject({ attempt: 2, status: 'completed' })
    await page.getByText(/died in attempt 1; another worker went on as attempt 2/).waitFor()
  })

  it('kills nothing for a page of another origin', async () => {
    const kill = (headers: Record<string, string>) =>
      fetch(`${world.web.url}/demo/kill`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: '{"generationId":"x"}',
      })
    expect((await kill({})).status).toBe(403)
    expect((await kill({ origin: 'https://example.org' })).status).toBe(403)
    expect((await kill({ origin: 'null' })).status).toBe(403)
    expect((await kill({ origin: world.web.url })).status).toBe(409)
  })

  it('sends what was written offline once and in order, when the network is back', async () => {
    browser.allowErrors(NO_NETWORK)
    const person = await browser.newPerson()
    const page = await openPage(person, world.web.url)
    const link = await beginChat(page, 'Hello')
    await wholeAnswer(page)
    await person.setOffline(true)
    await page.getByText('You are offline.').waitFor()
    await say(page, 'What is 2*3?')
    await say(page, 'What is 3*3?')
    await page.getByText('2 changes wait').waitFor()
    expect(await page.locator('.sending').count()).toBe(2)
    await takeScreenshot(page, 'offline')
    await person.setOffline(false)
    await answers(page).getByText('3*3 is 9').waitFor()
    await page.getByText('You are offline.').waitFor({ state: 'detached' })
    await page.locator('.sending').first().waitFor({ state: 'detached' })

    const { sql, schema } = world.database
    const rows = await sql`
      select content from ${sql(schema)}.messages
      where role = 'user' and session_id = ${new URL(link).searchParams.get('session')} order by seq`
    expect(rows.map(({ content }) => content as string)).toEqual([
      'Hello',
      'What is 2*3?',
      'What is 3*3?',
    ])
    expect(await page.locator('.bubble').allInnerTexts()).toEqual(rows.map((row) => row.content))
  })

  it('keeps what was written offline over a reload', async () => {
    browser.allowErrors(NO_NETWORK)
    const person = await browser.newPerson()
    const page = await openPage(person, world.web.url)
    const link = await beginChat(page, 'Hello')
    await wholeAnswer(page)
    await person.setOffline(true)
    await say(page, 'What is 4*4?')
    await page.getByText('1 change waits').waitFor()
    await page.close()
    await person.setOffline(false)
    const again = await openPage(person, link)
    await answers(again).getByText('4*4 is 16').waitFor()
    expect(await again.locator('.bubble').allInnerTexts()).toEqual(['Hello', 'What is 4*4?'])
  })

  it.skipIf(usesElectric)(
    'is up to date again after the sync server has rotated its shapes',
    async () => {
      // What a browser prints about 409 is no error of ours: the client reads on from a new shape.
      browser.allowErrors(/status of 409/)
      const page = await openPage(await browser.newPerson(), world.web.url)
      await beginChat(page, 'What is 5*6?')
      await wholeAnswer(page)
      const before = await threadText(page)
      const { electricUrl, schema } = world.database
      for (const table of ['messages', 'generations', 'tool_calls', 'approvals', 'sessions']) {
        const url = new URL('/v1/shape', electricUrl)
        url.searchParams.set('table', `${schema}.${table}`)
        await fetch(url, { method: 'DELETE' })
      }
      await say(page, 'What is 6*6?')
      await answers(page).getByText('6*6 is 36').waitFor()
      expect((await threadText(page)).slice(0, before.length)).toEqual(before)
      expect(await page.locator('.bubble').count()).toBe(2)
    },
  )

  it.skipIf(usesElectric)('goes on by itself when the sync server was restarted', async () => {
    browser.allowErrors(/status of (409|502|503)/)
    const page = await openPage(await browser.newPerson(), world.web.url)
    await beginChat(page, 'What is 7*6?')
    await wholeAnswer(page)
    const { server, url: databaseUrl } = world.database
    await server!.stop()
    await say(page, 'What is 7*7?')
    restarted = await startSyncServer({ databaseUrl, port: server!.port })
    await answers(page).getByText('7*7 is 49').waitFor()
    await wholeAnswer(page, 2)
    expect(await page.locator('.bubble').allInnerTexts()).toEqual(['What is 7*6?', 'What is 7*7?'])
    expect(await answers(page).count()).toBe(2)
  })
})

/** Paragraphs are elements on the page and line breaks in the row. */
function squeezed(text: string): string {
  return text.replace(/\s+/g, '')
}
