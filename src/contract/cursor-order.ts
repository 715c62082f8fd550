/**
 * The order of cursors. A cursor is opaque, but "further" has to mean something, and the same thing in every
 * process and in Postgres: this file is the TypeScript half of `cursor_precedes()` in migrations/, compared with it
 * in test/lifecycle/postgres-lifecycle.test.ts.
 *
 * Cursors of decimal digits only are numbers of any size and come first, by value. All others are text, by their
 * UTF-8 bytes: offsets of Durable Streams (`0000000000000001_0000000000000024`, and `-1` before all of them), ULIDs
 * and ISO instants are in order. Cursors that sort otherwise (`9-a`, `10-a`) must be written so that they sort:
 * pad them with zeros, or give the adapter a `compareCursors` of its own.
 */

const NUMBER = /^[0-9]+$/

/** Negative when `a` comes before `b`, 0 when they are the same place. */
export function compareCursors(a: string, b: string): number {
  const aIsNumber = NUMBER.test(a)
  if (aIsNumber !== NUMBER.test(b)) return aIsNumber ? -1 : 1
  if (!aIsNumber) return compareBytes(a, b)
  const [left, right] = [withoutZeros(a), withoutZeros(b)]
  return left.length - right.length || compareBytes(left, right)
}

const withoutZeros = (digits: string) => digits.replace(/^0+/, '')

/** The order of UTF-8 bytes, which is that of code points; UTF-16 puts surrogates before U+E000. */
function compareBytes(a: string, b: string): number {
  const length = Math.min(a.length, b.length)
  for (let at = 0; at < length; at += 1) {
    const [left, right] = [a.charCodeAt(at), b.charCodeAt(at)]
    if (left !== right) return rank(left) - rank(right)
  }
  return a.length - b.length
}

const rank = (unit: number) => (unit < 0xd800 ? unit : unit < 0xe000 ? unit + 0x2000 : unit - 0x800)
