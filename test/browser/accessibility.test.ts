/** The page for everybody: axe finds nothing, the keyboard is enough, and what a model says cannot do anything. */
import type { BrowserContextOptions, Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { noChromium, takeScreenshot, useBrowser } from '../support/browser.js'
import { violations } from './axe-violations.js'
import {
  answers,
  beginChat,
  messageBox,
  newestAnswer,
  openPage,
  say,
  STORY,
  SUM_AND_TIME,
  usePageWorld,
  wholeAnswer,
} from './page-world.js'

const DESKTOP = { viewport: { width: 1280, height: 800 } }
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }

describe.skipIf(noChromium)(`the page for everybody ${noChromium ?? ''}`, () => {
  const browser = useBrowser()
  const world = usePageWorld()

  it.each<[string, BrowserContextOptions]>([
    ['light-desktop', { ...DESKTOP, colorScheme: 'light' }],
    ['dark-desktop', { ...DESKTOP, colorScheme: 'dark' }],
    ['light-phone', { ...PHONE, colorScheme: 'light' }],
    ['dark-phone', { ...PHONE, colorScheme: 'dark' }],
  ])('has nothing for axe to find: %s', async (name, options) => {
    const page = await openPage(await browser.newPerson(options), world.web.url)
    await messageBox(page).waitFor()
    expect(await violations(page)).toEqual([])
    await takeScreenshot(page, `${name}-empty`)

    await beginChat(page, `${SUM_AND_TIME} And what is 2+2?`)
    await wholeAnswer(page)
    await newestAnswer(page).locator('.tool-head').first().click()
    await say(page, 'Delete notes.txt.')
    await page.getByRole('button', { name: 'Approve' }).waitFor()
    expect(await violations(page)).toEqual([])
    await takeScreenshot(page, `${name}-approval`)

    await page.getByRole('button', { name: 'Deny' }).click()
    await wholeAnswer(page, 2)
    await page.getByRole('button', { name: 'Behind the scenes' }).click()
    await say(page, STORY)
    await page.locator('.answer[data-status=generating] .prose').first().waitFor()
    expect(await violations(page)).toEqual([])
    await takeScreenshot(page, `${name}-scenes`)
    await page.getByRole('button', { name: 'Stop the answer' }).click()
    await page.getByText('Stopped.', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Close behind the scenes' }).click()

    const menu = page.getByRole('button', { name: 'Show the list of chats' })
    if (options.isMobile) await menu.click()
    expect(await violations(page)).toEqual([])
    await takeScreenshot(page, `${name}-list`)
    await page.getByRole('button', { name: /^Delete What is/ }).click()
    await page.getByRole('dialog').waitFor()
    expect(await violations(page)).toEqual([])
    await takeScreenshot(page, `${name}-dialog`)
  })

  it('holds a whole conversation by keyboard alone', async () => {
    const page = await openPage(await browser.newPerson(DESKTOP), world.web.url)
    const { keyboard } = page
    await messageBox(page).waitFor()
    expect(await focused(page)).toBe('Message')
    await keyboard.type('What is 2+2?')
    await keyboard.press('Shift+Enter')
    await keyboard.type('And 3+3?')
    await keyboard.press('Enter')
    await answers(page).getByText('3+3 is 6').waitFor()
    expect(await page.locator('.bubble').innerText()).toBe('What is 2+2?\nAnd 3+3?')
    expect(await focused(page)).toBe('Message')

    // Backwards from the message box: the answer's actions, its tool cards, one's own message.
    await tabTo(page, /^Edit/, 'Shift+Tab')
    await keyboard.press('Enter')
    expect(await focused(page)).toBe('Your message')
    await keyboard.press('Escape')
    await page.waitForFunction(() => document.activeElement?.textContent?.includes('Edit'))
    await tabTo(page, /calculate/)
    await keyboard.press('Enter')
    await page.getByRole('figure', { name: 'Result' }).waitFor()

    await tabTo(page, /^Message$/)
    await keyboard.type('Delete notes.txt.')
    await keyboard.press('Enter')
    await page.getByRole('button', { name: 'Approve' }).waitFor()
    await tabTo(page, /^Reason/, 'Shift+Tab')
    await keyboard.type('Go on')
    await tabTo(page, /^Approve/)
    await keyboard.press('Space')
    await wholeAnswer(page, 2)
    await page
      .getByText('“Go on”')
      .or(page.locator('[data-stand=completed]').last())
      .first()
      .waitFor()

    await tabTo(page, /^Delete What/, 'Shift+Tab')
    await keyboard.press('Enter')
    await page.getByRole('dialog').waitFor()
    await keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    expect(await focused(page)).toMatch(/^Delete What/)
  })

  it('keeps the focus in the drawer on a phone, and gives it back', async () => {
    const page = await openPage(await browser.newPerson(PHONE), world.web.url)
    await messageBox(page).waitFor()
    const menu = page.getByRole('button', { name: 'Show the list of chats' })
    await menu.click()
    await page.waitForFunction(() => document.activeElement?.className === 'new-chat')
    for (let press = 0; press < 6; press += 1) {
      await page.keyboard.press('Tab')
      expect(await page.evaluate(() => document.activeElement?.closest('.page') === null)).toBe(
        true,
      )
    }
    await page.keyboard.press('Escape')
    await page.waitForFunction(
      () => document.activeElement?.getAttribute('aria-label') === 'Show the list of chats',
    )
  })

  it('tells a screen reader that an answer begins, and what it says when it is whole, once', async () => {
    const page = await openPage(await browser.newPerson(), world.web.url)
    await beginChat(page, 'Hello')
    await page.evaluate(() => {
      const said: string[] = []
      Object.assign(window, { said })
      const region = document.querySelector('[role=status].visually-hidden')!
      new MutationObserver(() => said.push(region.textContent)).observe(region, {
        subtree: true,
        childList: true,
        characterData: true,
      })
    })
    await wholeAnswer(page)
    await say(page, 'What is 9*9?')
    await wholeAnswer(page, 2)
    await page.waitForFunction(() =>
      (window as unknown as { said: string[] }).said.some((text) => text.includes('9*9 is 81')),
    )
    const said = await page.evaluate(() => (window as unknown as { said: string[] }).said)
    expect(said.filter((text) => text.includes('9*9 is 81'))).toHaveLength(1)
    expect(said.length).toBeLessThanOrEqual(4)
  })

  it('shows HTML, scripts, evil links and remote pictures as text that does nothing', async () => {
    const person = await browser.newPerson()
    const asked: string[] = []
    person.on('request', (request) => asked.push(new URL(request.url()).origin))
    const page = await openPage(person, world.web.url)
    const evil =
      'foo<img src=x onerror="window.pwned=1"><script>window.pwned=1</script> ' +
      '[a](javascript:window.pwned=1) [b](data:text/html,x) [c](https://example.org/c) ' +
      '![d](https://example.org/d.png) <svg onload=window.pwned=1>'
    await beginChat(page, evil)
    await wholeAnswer(page)
    await say(page, 'Look up foo<img/src=x/onerror=window.pwned=1>')
    const answer = await wholeAnswer(page, 2)
    await answer.locator('.tool-head').click()
    await answer.getByRole('figure', { name: 'Result' }).waitFor()
    await page.getByRole('button', { name: 'Behind the scenes' }).click()
    await answers(page).first().getByText('<img src=x onerror=').waitFor()

    const inert = await page.evaluate(() => ({
      pwned: 'pwned' in window,
      elements: document.querySelectorAll('#root :is(img, script, iframe, svg[onload])').length,
      schemes: [...document.querySelectorAll<HTMLAnchorElement>('.thread a')].map(
        (a) => a.protocol,
      ),
    }))
    expect(inert.pwned).toBe(false)
    expect(inert.elements).toBe(0)
    expect(inert.schemes.length).toBeGreaterThan(0)
    expect(inert.schemes.every((scheme) => scheme === 'https:' || scheme === 'http:')).toBe(true)
    expect(new Set(asked)).toEqual(new Set([world.web.url]))
  })
})

/** What has the focus, by its label or text. */
function focused(page: Page): Promise<string> {
  return page.evaluate(() => {
    const { activeElement: element } = document
    const label = element instanceof HTMLInputElement ? element.labels?.[0]?.textContent : null
    return element?.getAttribute('aria-label') ?? label ?? element?.textContent?.trim() ?? ''
  })
}

async function tabTo(page: Page, wanted: RegExp, key = 'Tab'): Promise<void> {
  const passed: string[] = []
  for (let press = 0; press < 60; press += 1) {
    await page.keyboard.press(key)
    const name = await focused(page)
    if (wanted.test(name)) return
    passed.push(name.slice(0, 30))
  }
  throw new Error(`${key} never came to ${String(wanted)}, only to ${passed.join(' · ')}`)
}
