/** The shape contracts: what they ask, what they let pass, and that an error names the field. */
import { describe, expect, test } from 'vitest'
import { requireShape } from '../../src/contract/shapes.js'
import { chunkContract, generationContract, toolCallContract } from '../../src/index.js'

const call = { id: 'a', status: 'pending', name: 'search', args: undefined }

describe('a tool call', () => {
  test('may have anything else, and is given back as it is', async () => {
    const row = { ...call, mine: new Date(0) }
    expect(await toolCallContract['~standard'].validate(row)).toEqual({ value: row })
  })

  test.each([
    ['id', { ...call, id: '' }],
    ['status', { ...call, status: undefined }],
    ['name', { ...call, name: 7 }],
    ['args', { id: 'a', status: 'pending', name: 'search' }],
  ])('without its %s is refused by that name, with the cure', (field, row) => {
    expect(() => requireShape('createX()', 'tool call', row)).toThrow(
      expect.objectContaining({
        code: 'INVALID_INPUT',
        field,
        message: expect.stringMatching(
          new RegExp(`^createX\\(\\): a row is no tool call: its ${field} .*select\\(\\)`),
        ) as string,
      }) as Error,
    )
  })
})

test('a generation needs an id and a status', () => {
  expect(generationContract.safeParse({ id: 'a', status: 'pending' }).success).toBe(true)
  expect(() => requireShape('x', 'generation', { id: 'a' })).toThrow(/its status must be/)
})

test('a chunk’s index is its place: whole, and not negative', () => {
  const chunk = { id: 'a', generationId: 'g', index: 0 }
  expect(chunkContract.safeParse({ ...chunk, isFinal: true }).success).toBe(true)
  for (const index of [-1, 0.5, '0'])
    expect(() => requireShape('x', 'chunk', { ...chunk, index })).toThrow(/its index must/)
})
