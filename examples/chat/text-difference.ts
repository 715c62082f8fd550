/** How a text differs from the one it should be, in characters (UTF-16 units). */

export interface TextDifference {
  /** Units of the expected text that the actual one lacks. */
  lost: number
  /** Units of the actual text that the expected one has no place for. */
  surplus: number
}

/** By their longest common subsequence, so that one lost character costs one and not the whole rest. */
export function textDifference(expected: string, actual: string): TextDifference {
  let start = 0
  while (start < expected.length && expected[start] === actual[start]) start += 1
  let [endE, endA] = [expected.length, actual.length]
  while (endE > start && endA > start && expected[endE - 1] === actual[endA - 1]) {
    endE -= 1
    endA -= 1
  }
  const [wanted, found] = [expected.slice(start, endE), actual.slice(start, endA)]
  const common = commonLength(wanted, found)
  return { lost: wanted.length - common, surplus: found.length - common }
}

function commonLength(a: string, b: string): number {
  let above = new Uint32Array(b.length + 1)
  for (const unit of a.split('')) {
    const row = new Uint32Array(b.length + 1)
    for (let at = 1; at <= b.length; at += 1) {
      row[at] = unit === b[at - 1] ? above[at - 1]! + 1 : Math.max(above[at]!, row[at - 1]!)
    }
    above = row
  }
  return above[b.length]!
}
