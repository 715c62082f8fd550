/**
 * docs/rfc-coverage.md is true of the tests: every file and title that a row names is there, and no criterion of the PRD
 * is left out. What a test shows, only its reader can judge.
 */
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** The PRD's criteria by requirement; in 1.6 ten, and the two branches of one of them. */
const CRITERIA: Readonly<Record<string, number>> = {
  ...{ '1.1': 7, '1.2': 5, '1.3': 5, '1.4': 12, '1.5': 6, '1.6': 12, '1.7': 6, '1.8': 4, '1.9': 5 },
  ...{ '2.1': 20, '2.2': 10, '2.3': 10, '2.4': 4, '2.5': 14 },
  ...{ '3.1': 11, '3.2': 6 },
  ...{ '4.1': 6, '4.2': 4 },
}

interface Criterion {
  requirement: string
  criterion: string
  how: string
  tests: { path: string; title: string | undefined }[]
}

function criteriaOf(document: string): Criterion[] {
  const [body] = document.split('\n## Where the RFC')
  return body!.split('\n### Requirement ').flatMap((section, n) => {
    if (n === 0) return []
    const rows = section.split('\n').filter((line) => /^\| (?!criterion |-)/.test(line))
    return rows.map((row) => {
      const [, criterion = '', how = '', tests = ''] = row.split(/(?<!\\)\|/).map((c) => c.trim())
      return { requirement: section.slice(0, 3), criterion, how, tests: namedTests(tests) }
    })
  })
}

/** Cells like: `test/a.test.ts` › _a title_, `test/b.test.ts` › _another_ */
const namedTests = (cell: string) =>
  [...cell.matchAll(/`(test\/[^`]+)`(?: › _(.+?)_(?=, `test\/|$))?/g)].map(([, path, title]) => ({
    path: path!,
    title,
  }))

const criteria = criteriaOf(readFileSync(`${root}/docs/rfc-coverage.md`, 'utf8'))

test('every criterion of the PRD has its row', () => {
  const counts: Record<string, number> = {}
  for (const { requirement } of criteria) counts[requirement] = (counts[requirement] ?? 0) + 1
  expect(counts).toEqual(CRITERIA)
})

test('every test that is named is there, under its title', () => {
  const missing = criteria.flatMap(({ requirement, tests }) =>
    tests.flatMap(({ path, title }) => {
      if (!existsSync(`${root}/${path}`)) return [`${requirement}: there is no ${path}`]
      if (title === undefined) return [`${requirement}: ${path} is named without a title`]
      return titlesOf(path).includes(title)
        ? []
        : [`${requirement}: ${path} has no test "${title}"`]
    }),
  )
  expect(missing).toEqual([])
})

test('a row without a test says why: not yet, no, or by documentation', () => {
  const silent = criteria.filter(
    ({ how, tests }) => tests.length === 0 && !/^(not yet|no:)/.test(how),
  )
  expect(silent.map(({ requirement, criterion }) => `${requirement} ${criterion}`)).toEqual([])
})

test('phase 1 is whole: every row has a test', () => {
  const bare = criteria.filter(
    ({ requirement, tests }) => requirement.startsWith('1.') && tests.length === 0,
  )
  expect(bare.map(({ criterion }) => criterion)).toEqual([])
})

/** The text of a test file, its string quotes undone. */
function titlesOf(path: string): string {
  return readFileSync(`${root}/${path}`, 'utf8').replaceAll("\\'", "'")
}
