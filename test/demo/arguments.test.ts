/** The demo's command line, without the demo. */
import { describe, expect, it } from 'vitest'
import { readWish, UsageError } from '../../examples/chat/arguments.js'

describe('readWish', () => {
  it.each([
    [['--ask', ''], '--ask is empty'],
    [['--ask', ' \n'], '--ask is empty'],
    [['--ask'], '--ask'],
    [['--asc', 'x'], '--asc'],
    [['--data-dir', '', '--ask', 'x'], '--data-dir is empty'],
    [['--kill=yes', '--ask', 'x'], '--kill'],
    [['--port', '70000'], '--port is "70000"'],
    [['--port', 'x'], '--port is "x"'],
    [['--page', '--ask', 'x'], '--page takes no question'],
    [['what', 'is', '17*23?'], "'what'"],
  ])('refuses %j and names what is wrong', (argv, named) => {
    expect(() => readWish(argv)).toThrow(UsageError)
    expect(() => readWish(argv)).toThrow(named)
  })

  it('takes a question that begins with a dash', () => {
    expect(readWish(['--ask=-5+3'])).toEqual({ ask: '-5+3', json: false, kill: false, help: false })
  })

  it('takes the page alone, at a port', () => {
    const plain = { json: false, kill: false, help: false }
    expect(readWish(['--page', '--port', '0'])).toEqual({ ...plain, page: true, port: 0 })
    expect(readWish([])).toEqual(plain)
  })
})
