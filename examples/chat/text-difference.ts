/**
 * How a text differs from the one it should be, in characters (UTF-16 units), by their longest common
 * subsequence: one lost character costs one, and not the whole rest.
 */

export interface TextDifference {
  /** Units of the expected text that the actual one lacks. */
  lost: number
  /** Units of the actual text that the expected one has no place for. */
  surplus: number
}

export function textDifference(expected: string, actual: string): TextDifference {
  const { common } = align(expected, actual)
  return { lost: expected.length - common, surplus: actual.length - common }
}

/** Of a text that may end early: what it has not come to yet is not lost. */
export function differenceSoFar(expected: string, actual: string): TextDifference {
  const { common, reached } = align(expected, actual)
  return { lost: reached - common, surplus: actual.length - common }
}

/** `reached`: how much of `expected` it takes to have all that is common. */
function align(expected: string, actual: string): { common: number; reached: number } {
  let start = 0
  while (start < expected.length && expected[start] === actual[start]) start += 1
  const rest = actual.slice(start)
  let row = new Uint32Array(rest.length + 1)
  let [common, reached] = [0, 0]
  for (let place = start; place < expected.length && common < rest.length; place += 1) {
    row = nextRow(row, expected[place]!, rest)
    if (row[rest.length]! > common) [common, reached] = [row[rest.length]!, place + 1 - start]
  }
  return { common: start + common, reached: start + reached }
}

function nextRow(above: Uint32Array, unit: string, text: string): Uint32Array<ArrayBuffer> {
  const row = new Uint32Array(text.length + 1)
  for (let at = 1; at <= text.length; at += 1) {
    row[at] = unit === text[at - 1] ? above[at - 1]! + 1 : Math.max(above[at]!, row[at - 1]!)
  }
  return row
}
