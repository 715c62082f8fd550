/** A tool that people are asked about, on the chat page: every tab of everybody in the chat asks, one vote is enough. */
import { describe, expect, it } from 'vitest'
import { noChromium, takeScreenshot, useBrowser } from '../support/browser.js'
import { answers, beginChat, openPage, usePageWorld, wholeAnswer } from './page-world.js'

describe.skipIf(noChromium)(`approvals on the page ${noChromium ?? ''}`, () => {
  const browser = useBrowser()
  const world = usePageWorld()

  it('shows the exact arguments, and an approval in one tab shows in the other', async () => {
    const person = await browser.newPerson()
    const first = await openPage(person, world.web.url)
    const second = await openPage(person, await beginChat(first, 'Delete notes.txt.'))
    const asking = (page: typeof first) =>
      page.getByRole('group', { name: 'Approval of delete_file' })
    await Promise.all([asking(first).waitFor(), asking(second).waitFor()])
    await takeScreenshot(first, 'approval')
    for (const page of [first, second]) {
      const args = await page.getByRole('figure', { name: 'Arguments' }).locator('pre').innerText()
      expect(JSON.parse(args)).toEqual({ file: 'notes.txt' })
      expect(await page.getByText('assistant waits for an approval').isVisible()).toBe(true)
    }

    await second.getByLabel('Reason (optional)').fill('They are old.')
    await second.getByRole('button', { name: 'Approve' }).click()
    await Promise.all([asking(first), asking(second)].map((it) => it.waitFor({ state: 'hidden' })))
    for (const page of [first, second]) {
      const answer = await wholeAnswer(page)
      await answer.locator('.tool-card[data-stand=completed] .tool-head').click()
      await answer.getByText('You approved it: “They are old.”').waitFor()
    }
  })

  it('runs nothing when it is denied by somebody else in the chat, and says who and why', async () => {
    const host = await openPage(await browser.newPerson(), world.web.url)
    const link = await beginChat(host, 'Delete plans.txt.')
    const guest = await openPage(await browser.newPerson(), link)
    await guest.getByLabel('Reason (optional)').fill('We need it.')
    await guest.getByRole('button', { name: 'Deny' }).click()
    const answer = await wholeAnswer(host)
    await answer.locator('.tool-card[data-stand=denied] .tool-head').click()
    await answer.getByText(/^Guest .* denied it: “We need it.”$/).waitFor()
    expect(await answers(host).getByRole('figure', { name: 'Result' }).count()).toBe(0)
  })

  it('still asks after a reload, and after everything was closed', async () => {
    const person = await browser.newPerson()
    const page = await openPage(person, world.web.url)
    const link = await beginChat(page, 'Delete old.txt.')
    await page.getByRole('button', { name: 'Approve' }).waitFor()
    await page.close()
    const again = await openPage(person, link)
    await again.getByRole('button', { name: 'Approve' }).click()
    await wholeAnswer(again)
  })
})
