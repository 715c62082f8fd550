/**
 * Checks on what people send, before a statement does: the database has the same limits as CHECKs, but
 * an error from here names the field in the caller's words and costs no round trip.
 */
import { AiDbError, toError } from '../errors.js'
import { jsonText } from '../internal/statement.js'

/** Ids, names and keys: 1 to 200 characters of storable text. */
export function requireId(field: string, value: unknown): asserts value is string {
  requireText(field, value, 200)
  if (value.length === 0) throw invalid(field, 'is empty', 'Give it 1 to 200 characters.')
}

/** Text Postgres can store, of at most `maxBytes` bytes of UTF-8. */
export function requireText(
  field: string,
  value: unknown,
  maxBytes: number,
): asserts value is string {
  if (typeof value !== 'string') {
    throw invalid(
      field,
      `must be a string, got ${value === null ? 'null' : typeof value}`,
      'Pass text.',
    )
  }
  if (value.includes('\0')) {
    throw invalid(field, 'holds a NUL character, which Postgres cannot store', 'Remove it.')
  }
  if (!value.isWellFormed()) {
    throw invalid(
      field,
      'holds a lone surrogate, so it is not valid UTF-8',
      'Use toWellFormed() on it.',
    )
  }
  const bytes = new TextEncoder().encode(value).length
  if (bytes > maxBytes) {
    throw invalid(
      field,
      `has ${bytes} bytes, more than ${maxBytes}`,
      'Shorten it, or store it elsewhere and send a reference.',
    )
  }
}

/** Message content: text that is not blank. */
export function requireContent(
  field: string,
  value: unknown,
  maxBytes: number,
): asserts value is string {
  requireText(field, value, maxBytes)
  if (value.trim() === '') throw invalid(field, 'is empty', 'Write something to answer.')
}

/** A whole number that fits a smallint. */
export function requireSmallInteger(field: string, value: unknown): asserts value is number {
  if (Number.isInteger(value) && Math.abs(value as number) < 32_768) return
  throw invalid(
    field,
    `must be a whole number, got ${String(value)}`,
    'Pass one from -32767 to 32767.',
  )
}

/** JSON text of what a caller wants stored. */
export function requireJson(field: string, value: unknown): string {
  try {
    return jsonText(value)
  } catch (error) {
    throw invalid(
      field,
      `is not JSON (${toError(error).message})`,
      'Pass plain objects, arrays and scalars.',
    )
  }
}

function invalid(field: string, problem: string, cure: string): AiDbError {
  return new AiDbError('INVALID_INPUT', `${field} ${problem}. ${cure}`, { field })
}
