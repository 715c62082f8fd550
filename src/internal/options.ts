/**
 * Options: `interface XOptions` → `DEFAULTS` → `resolveOptions()`, which names a wrong field and the
 * nearest known one, so that a typo is an error and not a silent default.
 */
import { AiDbError } from '../errors.js'

/** Throws INVALID_OPTION for a key that is not known, suggesting the nearest that is. */
export function refuseUnknownOptions(what: string, given: object, known: readonly string[]): void {
  for (const key of Object.keys(given)) {
    if (known.includes(key)) continue
    const near = nearest(key, known)
    throw new AiDbError(
      'INVALID_OPTION',
      `${what}: unknown option '${key}'${near ? `; did you mean '${near}'?` : '.'} Known: ${known.join(', ')}.`,
      { field: key },
    )
  }
}

/** Throws INVALID_OPTION unless `value` is a finite number of at least `min`. */
export function requireNumber(what: string, field: string, value: unknown, min = 0): void {
  if (typeof value === 'number' && Number.isFinite(value) && value >= min) return
  throw new AiDbError(
    'INVALID_OPTION',
    `${what}: ${field} must be a number of at least ${min}, got ${String(value)}.`,
    {
      field,
    },
  )
}

/** Throws INVALID_OPTION unless `value` is one of the words, suggesting the nearest that is. */
export function requireWord(
  what: string,
  field: string,
  value: unknown,
  words: readonly string[],
): void {
  if (typeof value === 'string' && words.includes(value)) return
  const near = nearest(String(value), words)
  throw new AiDbError(
    'INVALID_OPTION',
    `${what}: ${field} must be one of ${words.join(', ')}, got '${String(value)}'${near ? `; did you mean '${near}'?` : '.'}`,
    { field },
  )
}

/** The known word within two edits of `word`, if there is one. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  let best: { word: string; distance: number } | undefined
  for (const candidate of known) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase())
    if (distance <= 2 && (!best || distance < best.distance)) best = { word: candidate, distance }
  }
  return best?.word
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i]
    for (let j = 1; j <= b.length; j += 1) {
      const substitution = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, substitution))
    }
    row = next
  }
  return row[b.length]!
}
