/** Parameters as both drivers take them: what goes in as an array or JSON comes out as it was. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  intArray,
  jsonText,
  quoteIdentifier,
  storableText,
  tableNames,
  textArray,
} from '../../src/internal/statement.js'

/** What Postgres reads from an array literal of quoted elements. */
const parseTextArray = (literal: string) =>
  [...literal.slice(1, -1).matchAll(/"((?:[^"\\]|\\.)*)"/gs)].map(([, text]) =>
    text!.replaceAll(/\\(.)/gs, '$1'),
  )

describe('textArray', () => {
  it('quotes what an array literal would take apart: quotes, backslashes, commas, braces, NULL', () => {
    expect(textArray(['a', 'b"c', 'd\\e', 'f,g', '{h}', 'NULL', ''])).toBe(
      '{"a","b\\"c","d\\\\e","f,g","{h}","NULL",""}',
    )
    expect(textArray([])).toBe('{}')
  })

  it('loses nothing of any text', () => {
    const texts = fc.array(fc.string({ unit: 'binary' }))
    fc.assert(
      fc.property(texts, (all) => {
        expect(parseTextArray(textArray(all))).toEqual(all)
      }),
    )
  })
})

describe('jsonText', () => {
  it('makes undefined null, as there is no other absence in jsonb', () => {
    expect(jsonText(undefined)).toBe('null')
  })

  it('replaces what Postgres refuses in values, however deep, so that a stray byte fails no turn', () => {
    expect(jsonText({ a: ['x\0', { b: '\ud800' }] })).toBe('{"a":["x\uFFFD",{"b":"\uFFFD"}]}')
  })

  it('replaces it in keys as well, which a model also makes up', () => {
    expect(jsonText({ 'a\0': { '\udc00': [1] }, b: 2 })).toBe('{"a\uFFFD":{"\uFFFD":[1]},"b":2}')
  })

  it('keeps everything that is storable', () => {
    const storable = fc.jsonValue({ noUnicodeString: true })
    fc.assert(
      fc.property(storable, (value) => {
        const text = jsonText(value)
        if (!JSON.stringify(value).includes('\\u')) expect(text).toBe(JSON.stringify(value))
      }),
    )
  })
})

describe('storableText', () => {
  it('never leaves a NUL or a lone surrogate', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const stored = storableText(`${text}\0\udc00`)
        expect(stored.isWellFormed() && !stored.includes('\0')).toBe(true)
      }),
    )
  })

  it('leaves whole text as it is', () => {
    expect(storableText('👩‍🚀 é\n')).toBe('👩‍🚀 é\n')
  })
})

describe('names', () => {
  it('are quoted, so that a schema’s name cannot end the statement', () => {
    expect(quoteIdentifier('a"; drop table b; --')).toBe('"a""; drop table b; --"')
    expect(tableNames('a"b')).toMatchObject({
      schema: '"a""b"',
      toolCalls: '"a""b".tool_calls',
    })
    expect(tableNames('x').fn('put_down_generation')).toBe('"x".put_down_generation')
  })

  it('intArray is an array literal', () => {
    expect(intArray([1, -2, 3])).toBe('{1,-2,3}')
  })
})
