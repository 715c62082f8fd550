/** The demo's numbers must be able to be bad: what measures them is tested on texts that are. */
import { describe, expect, it } from 'vitest'
import { Screen } from '../../examples/chat/screen.js'
import { differenceSoFar, textDifference } from '../../examples/chat/text-difference.js'

const ANSWER = '17*23 is 391. In Tokyo it is 09:00.'

describe('textDifference', () => {
  it.each([
    ['the same text', ANSWER, 0, 0],
    ['a lost word', ANSWER.replace('is 391', '391'), 3, 0],
    ['a lost end', ANSWER.slice(0, 10), ANSWER.length - 10, 0],
    ['a repeated word', ANSWER.replace('Tokyo', 'Tokyo Tokyo'), 0, 6],
    ['the whole text twice', ANSWER + ANSWER, 0, ANSWER.length],
    ['nothing', '', ANSWER.length, 0],
    ['a lost word and a repeated one', ANSWER.replace('is ', '').replace('In ', 'In In '), 3, 3],
  ])('%s', (_, actual, lost, surplus) => {
    expect(textDifference(ANSWER, actual)).toEqual({ lost, surplus })
  })
})

describe('differenceSoFar', () => {
  it.each([
    ['a text that ends early', ANSWER.slice(0, 20), 0, 0],
    ['one that lost a word and ends early', ANSWER.slice(0, 20).replace('is ', ''), 3, 0],
    ['one that says a word twice and ends early', ANSWER.slice(0, 22) + 'Tokyo', 0, 5],
    ['nothing yet', '', 0, 0],
  ])('%s', (_, actual, lost, surplus) => {
    expect(differenceSoFar(ANSWER, actual)).toEqual({ lost, surplus })
  })
})

describe('Screen', () => {
  function fakeTerminal(isTTY: boolean) {
    let written = ''
    const write = (text: string | Uint8Array) => ((written += String(text)), true)
    return { isTTY, columns: 20, write, read: () => written }
  }

  it.each([
    ['two terminals', true, true],
    ['a piped answer', false, true],
    ['no terminal', false, false],
  ])('keeps the progress line out of stdout: %s', (_, outIsTTY, errIsTTY) => {
    const [out, err] = [fakeTerminal(outIsTTY), fakeTerminal(errIsTTY)]
    const screen = new Screen(out as never, err as never)
    screen.progress('claimed')
    screen.text('one two three four five')
    screen.note('by the way')
    screen.progress('')
    screen.endLine()
    expect(out.read()).toBe('one two three four five\n')
    expect(err.read()).toContain('by the way\n')
    expect(err.read().includes('claimed')).toBe(errIsTTY)
  })
})
