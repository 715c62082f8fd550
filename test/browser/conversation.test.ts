/** Talking on the chat page: with tools, from two tabs, from another browser, with stop, edit and retry. */
import { describe, expect, it } from 'vitest'
import { noChromium, takeScreenshot, useBrowser } from '../support/browser.js'
import { pollUntil } from '../support/poll-until.js'
import {
  answers,
  beginChat,
  messageBox,
  midSentence,
  newestAnswer,
  openPage,
  recordAnswer,
  say,
  setback,
  STORY,
  SUM_AND_TIME,
  threadText,
  usePageWorld,
  wholeAnswer,
} from './page-world.js'

describe.skipIf(noChromium)(`a conversation on the page ${noChromium ?? ''}`, () => {
  const browser = useBrowser()
  const world = usePageWorld()

  it('is the same in two tabs, through a whole conversation with tools', async () => {
    const person = await browser.newPerson()
    const first = await openPage(person, world.web.url)
    const link = await beginChat(first, SUM_AND_TIME)
    const second = await openPage(person, link)

    await wholeAnswer(first)
    await say(second, 'Who is Ada Lovelace?')
    await wholeAnswer(second, 2)
    await say(first, 'What is 2^10?')
    for (const tab of [first, second]) {
      const last = await wholeAnswer(tab, 3)
      await last.getByText('2^10 is 1024').waitFor()
    }

    const [one, two] = await Promise.all([threadText(first), threadText(second)])
    expect(one).toEqual(two)
    expect(one.filter((text) => text.includes('17*23 is 391'))).toHaveLength(1)
    expect(await first.locator('.tool-card').allInnerTexts()).toEqual(
      await second.locator('.tool-card').allInnerTexts(),
    )
    expect(await first.locator('.tool-card[data-stand=completed]').count()).toBe(4)
  })

  it('shows the text while it is written in both tabs, and nothing moves when the message takes over', async () => {
    const person = await browser.newPerson()
    const writer = await person.newPage()
    const seenByWriter = await recordAnswer(writer)
    await writer.goto(world.web.url)
    const link = await beginChat(writer, STORY)
    const reader = await person.newPage()
    const seenByReader = await recordAnswer(reader)
    await reader.goto(link)
    await midSentence(reader)
    await Promise.all([wholeAnswer(writer), wholeAnswer(reader)])

    const whole = await newestAnswer(writer).locator('.answer-body').textContent()
    await pollUntil('both recordings at the end', () =>
      [seenByWriter, seenByReader].every((seen) => seen.at(-1) === whole),
    )
    expect(seenByWriter.length).toBeGreaterThan(4)
    expect(seenByReader.length).toBeGreaterThan(4)
    expect(setback(seenByWriter)).toBeUndefined()
    expect(setback(seenByReader)).toBeUndefined()
  })

  it('can be joined by its link from another browser, whose words are marked as somebody else’s', async () => {
    const host = await openPage(await browser.newPerson(), world.web.url)
    const link = await beginChat(host, 'Hello')
    await wholeAnswer(host)
    const guest = await openPage(await browser.newPerson(), link)
    await say(guest, 'What is 3*4?')
    await answers(host).getByText('3*4 is 12').waitFor()

    await host
      .getByRole('article', { name: /^Guest .* said$/ })
      .getByText('What is 3*4?')
      .waitFor()
    expect(await host.getByRole('button', { name: /^Edit/ }).count()).toBe(1)
    expect(await guest.getByRole('button', { name: /^Edit/ }).count()).toBe(1)
    // The chat is in the list of who began it.
    expect(await guest.getByRole('navigation', { name: 'Chats' }).getByRole('link').count()).toBe(0)
  })

  it('stops an answer from either tab, keeps what was written, and says so', async () => {
    const person = await browser.newPerson()
    const first = await openPage(person, world.web.url)
    const second = await openPage(person, await beginChat(first, STORY))
    await midSentence(second)
    await second.getByRole('button', { name: 'Stop the answer' }).click()
    for (const tab of [first, second]) await newestAnswer(tab).getByText('Stopped.').waitFor()

    const { sql, schema } = world.database
    const [row] = await pollUntil('the partial message', async () => {
      const rows = await sql`select content from ${sql(schema)}.messages
        where metadata ->> 'partial' = 'true' order by seq desc limit 1`
      return rows.length > 0 && rows
    })
    await pollUntil('both tabs showing it', async () => {
      const texts = await Promise.all([threadText(first), threadText(second)])
      return texts.every((text) => text.slice(1).join('\n\n') === row!.content)
    })
  })

  it('edits a message: the old turn goes, the new text is answered', async () => {
    const page = await openPage(await browser.newPerson(), world.web.url)
    await beginChat(page, 'What is 6*7?')
    await wholeAnswer(page)
    await page.getByRole('button', { name: /^Edit “What is 6\*7/ }).click()
    const box = page.getByRole('textbox', { name: 'Your message' })
    await box.fill('What is 8*9?')
    await box.press('Enter')
    await answers(page).getByText('8*9 is 72').waitFor()
    await wholeAnswer(page)
    expect(await answers(page).getByText('6*7 is 42').count()).toBe(0)
    expect(await answers(page).count()).toBe(1)
    expect(await page.locator('.bubble').allInnerTexts()).toEqual(['What is 8*9?'])
  })

  it('answers anew on retry, in place of the old answer', async () => {
    const page = await openPage(await browser.newPerson(), world.web.url)
    await beginChat(page, 'What is 5*5?')
    await wholeAnswer(page)
    const before = await newestAnswer(page).getAttribute('data-generation')
    await page.getByRole('button', { name: 'Retry' }).click()
    await page
      .locator(`.answer:not([data-generation="${before}"])[data-status=completed]`)
      .waitFor()
    await answers(page).getByText('5*5 is 25').waitFor()
    expect(await answers(page).count()).toBe(1)
  })

  it('lists chats newest first; renames and deletes one in every tab', async () => {
    const person = await browser.newPerson()
    const first = await openPage(person, world.web.url)
    await beginChat(first, 'The older one')
    await first.getByRole('button', { name: 'New chat' }).click()
    await beginChat(first, 'The newer one')
    const second = await openPage(person, world.web.url)
    const titles = (page: typeof first) =>
      page.getByRole('navigation', { name: 'Chats' }).getByRole('link').allInnerTexts()
    await second.getByRole('link', { name: 'The older one' }).waitFor()
    expect(await titles(second)).toEqual(['The newer one', 'The older one'])

    await second.getByRole('link', { name: 'The older one' }).hover()
    await second.getByRole('button', { name: 'Rename The older one' }).click()
    await second.getByRole('textbox', { name: 'Title of the chat' }).fill('Renamed')
    await second.getByRole('textbox', { name: 'Title of the chat' }).press('Enter')
    await first.getByRole('link', { name: 'Renamed' }).waitFor()

    await first.getByRole('button', { name: 'Delete The newer one' }).click()
    await first.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await second.getByRole('link', { name: 'The newer one' }).waitFor({ state: 'detached' })
    await first.getByRole('heading', { name: 'What would you like to know?' }).waitFor()
    expect(await titles(second)).toEqual(['Renamed'])
    expect(await messageBox(first).isVisible()).toBe(true)
  })

  it('says why an answer failed, in every tab', async () => {
    const person = await browser.newPerson()
    const first = await openPage(person, world.web.url)
    const link = await beginChat(first, 'Hello')
    const second = await openPage(person, link)
    await wholeAnswer(second)
    const { sql, schema } = world.database
    const sessionId = new URL(link).searchParams.get('session')!
    // For an agent that no worker has, so it stays where it is until somebody gives up on it.
    await sql`
      insert into ${sql(schema)}.messages (session_id, role, actor_id, target_agent, content)
      values (${sessionId}, 'user', 'guest-of-another-app', 'nobody', 'Is nobody there?')`
    await first.getByText('nobody is about to answer…').waitFor()
    await sql`
      update ${sql(schema)}.generations
         set status = 'failed', error = 'No worker has this agent.', completed_at = now()
       where session_id = ${sessionId} and agent_name = 'nobody'`
    for (const page of [first, second]) {
      await page.getByText('The answer failed: No worker has this agent.').first().waitFor()
    }
    await takeScreenshot(first, 'failed')
  })

  it('stays at the end while the reader is there, and leaves a reader who scrolled up alone', async () => {
    const person = await browser.newPerson({ viewport: { width: 900, height: 420 } })
    const page = await openPage(person, world.web.url)
    await beginChat(page, STORY)
    const place = page.locator('.thread-scroll')
    const distance = () => place.evaluate((it) => it.scrollHeight - it.scrollTop - it.clientHeight)
    await midSentence(page, 700)
    expect(await place.evaluate((it) => it.scrollHeight > it.clientHeight + 100)).toBe(true)
    expect(await distance()).toBeLessThan(60)

    await place.hover()
    await page.mouse.wheel(0, -5_000)
    await page.getByRole('button', { name: 'To the newest message' }).waitFor()
    const shown = (await newestAnswer(page).innerText()).length
    await midSentence(page, shown + 60)
    expect(await place.evaluate((it) => it.scrollTop)).toBe(0)

    await page.getByRole('button', { name: 'To the newest message' }).click()
    await wholeAnswer(page)
    await pollUntil('the end', async () => (await distance()) < 60)
  })

  it('says that a chat is gone: deleted in another tab, or never there', async () => {
    browser.allowErrors(/status of 404/)
    const person = await browser.newPerson()
    const first = await openPage(person, world.web.url)
    const second = await openPage(person, await beginChat(first, 'Hello'))
    await wholeAnswer(second)
    await first.getByRole('button', { name: 'Delete Hello' }).click()
    await first.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await second.getByRole('heading', { name: 'There is no such chat' }).waitFor()
    const third = await openPage(person, `${world.web.url}/?session=never-there`)
    await third.getByRole('heading', { name: 'There is no such chat' }).waitFor()
  })

  it('gives a refused message back to its writer, with the reason', async () => {
    browser.allowErrors(/status of 4\d\d/)
    const page = await openPage(await browser.newPerson(), world.web.url)
    await beginChat(page, 'Hello')
    await wholeAnswer(page)
    const tooLong = 'x'.repeat(1_100_000)
    await say(page, tooLong)
    await page.getByRole('alert').waitFor()
    expect(await page.getByRole('alert').innerText()).toMatch(/content/)
    expect((await messageBox(page).inputValue()).length).toBe(tooLong.length)
    expect(await page.locator('.bubble').allInnerTexts()).toEqual(['Hello'])
    await say(page, 'What is 3*5?')
    await answers(page).getByText('3*5 is 15').waitFor()
    expect(await page.getByRole('alert').count()).toBe(0)
  })
})
