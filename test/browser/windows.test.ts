/** As many windows as people put side by side: over HTTP/1.1 they share six connections, and all must stay usable. */
import { describe, expect, it } from 'vitest'
import { noChromium, useBrowser } from '../support/browser.js'
import {
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

describe.skipIf(noChromium)(`three windows side by side ${noChromium ?? ''}`, () => {
  const browser = useBrowser()
  const world = usePageWorld()

  it('all show an answer as it is written, and its worker can be killed and it be stopped from each', async () => {
    const person = await browser.newPerson()
    const first = await openPage(person, world.web.url)
    const link = await beginChat(first, 'Hello')
    await wholeAnswer(first)
    const second = await openPage(person, link)
    const third = await person.newPage()
    const texts = await recordAnswer(third)
    await third.goto(link)
    const windows = [first, second, third]
    await Promise.all(windows.map((page) => wholeAnswer(page)))
    await third.getByRole('button', { name: 'Behind the scenes' }).click()

    await say(first, STORY)
    await Promise.all(windows.map((page) => midSentence(page)))
    await third.getByRole('button', { name: 'kill -9 the worker' }).click()
    await third.getByText('from kill to the next token').waitFor()
    await second.getByRole('button', { name: 'Stop the answer' }).click()
    for (const page of windows) await newestAnswer(page).getByText('Stopped.').waitFor()

    const [one, two, three] = await Promise.all(windows.map(threadText))
    expect(two).toEqual(one)
    expect(three).toEqual(one)
    const story = texts.slice(texts.findIndex((text) => text?.startsWith('You asked')))
    expect(story.length).toBeGreaterThan(3)
    expect(setback(story)).toBeUndefined()
  })
})
