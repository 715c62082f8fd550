/** The one seam at which a driver's failure becomes a code, whichever way the driver wraps it. */
import { describe, expect, it } from 'vitest'
import { AiDbError } from '../../src/errors.js'
import {
  isTransient,
  isUniqueViolation,
  isUnreachable,
  mapDatabaseError,
} from '../../src/internal/database-errors.js'

const failure = (code: string, more: object = {}) =>
  Object.assign(new Error(`failed with ${code}`), { code, ...more })

/** The ways one failure arrives. */
const wrappings: readonly (readonly [string, (inner: Error) => unknown])[] = [
  ['bare', (inner) => inner],
  ['as the cause of a Drizzle error', (inner) => new Error('Failed query', { cause: inner })],
  ['two causes deep', (inner) => new Error('a', { cause: new Error('b', { cause: inner }) })],
  ['as the first of several', (inner) => new AggregateError([inner], 'all failed')],
]

const codes = [
  ['AI001', 'ILLEGAL_TRANSITION'],
  ['23505', 'DUPLICATE_ID'],
  ['23503', 'UNKNOWN_SESSION'],
  ['23514', 'INVALID_INPUT'],
  ['42501', 'PERMISSION_DENIED'],
  ['42P01', 'NOT_MIGRATED'],
  ['42703', 'NOT_MIGRATED'],
  ['42883', 'NOT_MIGRATED'],
  ['3F000', 'NOT_MIGRATED'],
  ['28P01', 'DATABASE_UNREACHABLE'],
  ['3D000', 'DATABASE_UNREACHABLE'],
  ['22021', 'INVALID_INPUT'],
  ['22P05', 'INVALID_INPUT'],
  ['ECONNREFUSED', 'DATABASE_UNREACHABLE'],
  ['57P01', 'DATABASE_UNREACHABLE'],
  ['57P03', 'DATABASE_UNREACHABLE'],
  ['53300', 'DATABASE_UNREACHABLE'],
  ['CONNECTION_ENDED', 'DATABASE_UNREACHABLE'],
] as const

describe.each(wrappings)('a failure %s', (_name, wrap) => {
  it.each(codes)('%s → %s, the cause kept', (code, expected) => {
    const given = wrap(failure(code))
    expect(mapDatabaseError(given)).toMatchObject({ code: expected, cause: given })
  })

  it('tells a lost race, which may run again, from everything else', () => {
    expect(['40001', '40P01', '23505'].map((code) => isTransient(wrap(failure(code))))).toEqual([
      true,
      true,
      false,
    ])
  })

  it.each(['constraint', 'constraint_name'])('knows a unique index by %s', (property) => {
    const given = wrap(failure('23505', { [property]: 'slots_key' }))
    expect(isUniqueViolation(given, 'slots_key')).toBe(true)
    expect(isUniqueViolation(given, 'other_key')).toBe(false)
  })
})

describe('mapDatabaseError', () => {
  it('names the field of a CHECK in the caller’s words, with either driver’s property', () => {
    for (const property of ['constraint', 'constraint_name']) {
      const given = failure('23514', { [property]: 'messages_content_check' })
      expect(mapDatabaseError(given)).toMatchObject({
        field: 'content',
        message: expect.stringMatching(/^content is not acceptable\. .*1 MiB/) as string,
      })
    }
  })

  it('says which CHECK it was when it has no words for it', () => {
    const given = failure('23514', { constraint: 'own_check' })
    expect(mapDatabaseError(given).message).toBe(
      'failed with 23514. See the CHECK of that name in the schema.',
    )
  })

  it('ends with the hint of the database where there is one', () => {
    const given = failure('AI001', { hint: 'Insert it as pending.' })
    expect(mapDatabaseError(given).message).toBe('failed with AI001. Insert it as pending.')
  })

  it('passes its own errors and unknown ones through unchanged', () => {
    const own = new AiDbError('NOT_FOUND', 'There is none.')
    const foreign = failure('22012')
    expect(mapDatabaseError(own)).toBe(own)
    expect(mapDatabaseError(foreign)).toBe(foreign)
  })

  it.each([undefined, null, 'text', 42, {}])('makes an Error of %j', (thrown) => {
    expect(mapDatabaseError(thrown)).toBeInstanceOf(Error)
  })

  it('knows an ended connection that has a message and no code', () => {
    const mapped = mapDatabaseError(new Error('Connection terminated unexpectedly'))
    expect(isUnreachable(mapped)).toBe(true)
    expect(isUnreachable(new Error('Connection terminated unexpectedly'))).toBe(false)
  })

  it('does not go round in circles', () => {
    const one = new Error('one')
    one.cause = one
    expect(mapDatabaseError(one)).toBe(one)
  })
})
