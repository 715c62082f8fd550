/** docs/spec.md cannot drift: its tables are the code's, and what it names as enforcement exists. */
import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { generationTransitions, toolCallTransitions } from '../../src/contract/status.js'
import { parseRing } from '../../src/runner/doorbell.js'

const spec = readFileSync('docs/spec.md', 'utf8')

/** The rows of the table whose head begins with `corner`, as from → to → legal. */
function tableOf(corner: string): Record<string, Record<string, boolean>> {
  const lines = spec.slice(spec.indexOf(`| ${corner} |`)).split('\n')
  const [head, , ...rows] = lines.slice(
    0,
    lines.findIndex((line) => !line.startsWith('|')),
  )
  const cells = (line: string) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim())
  const to = cells(head!).slice(1)
  return Object.fromEntries(
    rows.map((row) => {
      const [from, ...marks] = cells(row)
      return [from!, Object.fromEntries(marks.map((mark, place) => [to[place]!, mark === '✓']))]
    }),
  )
}

test('the transition tables are the typed ones', () => {
  expect(tableOf('generation')).toEqual(generationTransitions)
  expect(tableOf('tool call')).toEqual(toolCallTransitions)
})

const invariants = spec.split(/\n(?=\*\*I\d+\. )/).slice(1)

describe('every invariant', () => {
  test('is numbered upwards and names what enforces it', () => {
    const numbers = invariants.map((text) => Number(/^\*\*I(\d+)\. /.exec(text)![1]))
    // Each number once and going up; parts of the specification have numbers of their own range.
    expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b))
    for (const text of invariants) expect(text).toContain('**Enforcement:**')
  })

  test('names only files that exist, and at least one test or constraint', () => {
    const missing = [...spec.matchAll(/`((?:src|test|migrations|docs)\/[^`]*)`/g)]
      .map((match) => match[1]!)
      .filter((path) => !existsSync(path))
    expect(missing).toEqual([])
    const untested = invariants
      .filter((text) => !text.includes('`test/'))
      .map((text) => text.slice(2, 60))
    expect(untested).toEqual([])
  })
})

test('every payload of the doorbell table is understood', () => {
  const section = spec.slice(spec.indexOf('## Doorbell'), spec.indexOf('## Recovery'))
  const payloads = [...section.matchAll(/^\| `([^`]+)` +\|/gm)].map((match) => match[1]!)
  expect(payloads).toHaveLength(5)
  for (const payload of payloads) expect(parseRing(payload.replace(/<.*>/, 'x'))).toBeDefined()
})

test('the events are the typed ones', () => {
  const section = spec.slice(spec.indexOf('## Events'), spec.indexOf('## Budgets'))
  const told = [...section.matchAll(/^\| `([^`]+)` +\|/gm)].map((match) => match[1]!)
  const source = readFileSync('src/runner/events.ts', 'utf8')
  const typed = [...source.matchAll(/type: '([^']+)'/g)].map((match) => match[1]!)
  expect(told).toEqual(typed)
})
