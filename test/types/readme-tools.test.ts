/** The README's example of the tool primitives is the one that is compiled. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

test('the README shows what compiles', () => {
  const source = readFileSync(new URL('./readme-tools.ts', import.meta.url), 'utf8')
  const example = /\/\/ README\n([^]*?)\/\/ end\n/.exec(source)![1]!
  expect(readFileSync('README.md', 'utf8')).toContain(example)
})
