/** The second example: TanStack AI's `useChat` in a real browser over a session, beside the page itself. */
import { describe, expect, it } from 'vitest'
import { noChromium, takeScreenshot, useBrowser } from '../support/browser.js'
import { violations } from './axe-violations.js'
import {
  answers,
  beginChat,
  openPage,
  say,
  STORY,
  usePageWorld,
  wholeAnswer,
} from './page-world.js'

describe.skipIf(noChromium)(`useChat on the page ${noChromium ?? ''}`, () => {
  const browser = useBrowser()
  const world = usePageWorld()
  const viewOf = (link: string) => link.replace('?session=', '?view=use-chat&session=')

  it('shows what was said, takes part, and hears the other tab', async () => {
    const person = await browser.newPerson()
    const page = await openPage(person, world.web.url)
    const link = await beginChat(page, 'What is 2*8?')
    await wholeAnswer(page)
    const other = await openPage(person, viewOf(link))
    await other.getByText('2*8 is 16').waitFor()
    await say(other, 'What is 3*8?')
    await answers(page).getByText('3*8 is 24').waitFor()
    await other.getByText('3*8 is 24').waitFor()
    await say(page, 'What is 4*8?')
    await other.getByText('4*8 is 32').waitFor()
    await takeScreenshot(other, 'use-chat')
    expect(await violations(other)).toEqual([])
    expect(await other.locator('.bubble').allInnerTexts()).toEqual([
      'What is 2*8?',
      'What is 3*8?',
      'What is 4*8?',
    ])
  })

  it('goes on in mid-sentence after a reload, with the same words', async () => {
    const person = await browser.newPerson()
    const page = await openPage(person, world.web.url)
    const other = await openPage(person, viewOf(await beginChat(page, STORY)))
    await other.getByText('Once there was a worker').waitFor()
    await other.reload()
    await other.getByText('read the same text to its end.').waitFor()
    await wholeAnswer(page)
    const text = (from: typeof page) => from.locator('.answer .prose').allInnerTexts()
    expect((await text(other)).join('\n\n')).toBe((await text(page)).join('\n\n'))
  })

  it('asks for approval, and its vote is heard by the page', async () => {
    const person = await browser.newPerson()
    const page = await openPage(person, world.web.url)
    const other = await openPage(person, viewOf(await beginChat(page, 'Delete notes.txt.')))
    await other.getByRole('button', { name: 'Approve' }).click()
    await page.getByRole('button', { name: 'Approve' }).waitFor({ state: 'detached' })
    await wholeAnswer(page)
    expect(await page.locator('.tool-card[data-stand=completed]').count()).toBe(1)
  })
})
