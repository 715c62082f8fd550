/** A mistyped option is an error that names it and the nearest known one, not a silent default. */
import { describe, expect, it } from 'vitest'
import {
  nearest,
  refuseUnknownOptions,
  requireNumber,
  requireWord,
} from '../../src/internal/options.js'

const error = (field: string, message: RegExp) =>
  expect.objectContaining({
    code: 'INVALID_OPTION',
    field,
    message: expect.stringMatching(message) as string,
  }) as Error

describe('refuseUnknownOptions', () => {
  const known = ['schema', 'tables']
  const refuse = (given: object) => () => refuseUnknownOptions('migrate()', given, known)

  it('lets known ones pass, set or not', () => {
    expect(refuse({ schema: 'x', tables: undefined })).not.toThrow()
    expect(refuse({})).not.toThrow()
  })

  it('suggests the nearest, and lists all of them', () => {
    expect(refuse({ shcema: 'x' })).toThrow(
      error(
        'shcema',
        /^migrate\(\): unknown option 'shcema'; did you mean 'schema'\? Known: schema, tables\.$/,
      ),
    )
  })

  it('suggests nothing that is far off', () => {
    expect(refuse({ colour: 1 })).toThrow(error('colour', /'colour'\. Known: schema, tables/))
  })
})

describe('requireNumber', () => {
  it.each([0, 1, 1.5, 1e9])('takes %d', (value) => {
    expect(() => requireNumber('worker', 'slots', value)).not.toThrow()
  })

  it.each([-1, NaN, Infinity, '5', null, undefined, 5n])('refuses %s', (value) => {
    expect(() => requireNumber('worker', 'slots', value)).toThrow(
      error('slots', /slots must be a number of at least 0, got/),
    )
  })

  it('holds the least value the caller asks for', () => {
    expect(() => requireNumber('worker', 'slots', 0, 1)).toThrow(
      error('slots', /at least 1, got 0/),
    )
  })
})

describe('requireWord', () => {
  const words = ['library', 'host']

  it('takes the words and nothing else', () => {
    expect(() => requireWord('migrate()', 'tables', 'host', words)).not.toThrow()
    for (const wrong of ['', 'HOST ', 1, null, undefined, ['host']]) {
      expect(() => requireWord('migrate()', 'tables', wrong, words)).toThrow(
        error('tables', /one of library, host, got/),
      )
    }
  })

  it('suggests the nearest', () => {
    expect(() => requireWord('migrate()', 'tables', 'hots', words)).toThrow(
      error('tables', /got 'hots'; did you mean 'host'\?/),
    )
  })
})

describe('nearest', () => {
  it.each([
    ['asistant', 'assistant'],
    ['ASSISTANT', 'assistant'],
    ['peot', 'poet'],
    ['writer', undefined],
    ['', undefined],
  ])('%s → %s', (word, expected) => {
    expect(nearest(word, ['assistant', 'poet'])).toBe(expected)
  })

  it('takes the closer of two', () => {
    expect(nearest('agent-2', ['agent-12', 'agent-22', 'agent-2b', 'agent-2'])).toBe('agent-2')
  })
})
