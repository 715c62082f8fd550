/**
 * A bench's result as it is printed: one JSON line on stdout, one row of a table on stderr.
 *
 * `ratio` is ours / floor. `target` says what must hold, `ok` whether it did, and of a missed one `note`
 * says by how much and why.
 */
import type { BenchName } from './bench-arguments.js'
import { rounded } from './statistics.js'

export interface BenchLine {
  bench: BenchName
  ours: number
  floor: number
  ratio: number
  /** Of `ours` and `floor`. */
  unit: string
  p50: number
  p95: number
  target: string
  ok: boolean
  n: number
  note?: string
  /** Further numbers of this bench. */
  [extra: string]: unknown
}

/** One thing that must hold. */
export interface Limit {
  what: string
  value: number
  atMost?: number
  atLeast?: number
  unit?: string
}

export interface Measured {
  bench: BenchName
  ours: number
  floor: number
  unit: string
  p50: number
  p95: number
  n: number
  limits: readonly Limit[]
  /** Why a limit is missed, where that is known. */
  why?: string
  extra?: Record<string, number | boolean | string>
}

export function benchLine(measured: Measured): BenchLine {
  const { bench, ours, floor, unit, p50, p95, n, limits, why, extra = {} } = measured
  const missed = limits.filter((limit) => !holds(limit))
  const note = [...missed.map(missedBy), ...(missed.length > 0 && why ? [why] : [])].join('; ')
  return {
    bench,
    ours: rounded(ours),
    floor: rounded(floor),
    ratio: rounded(ours / floor),
    unit,
    p50: rounded(p50),
    p95: rounded(p95),
    target: limits.map(wording).join(', '),
    ok: missed.length === 0,
    n,
    ...(note !== '' && { note }),
    ...Object.fromEntries(
      Object.entries(extra).map(([name, value]) => [
        name,
        typeof value === 'number' ? rounded(value) : value,
      ]),
    ),
  }
}

/** What is not a number never holds. */
function holds({ value, atMost = Number.POSITIVE_INFINITY, atLeast = 0 }: Limit): boolean {
  return value <= atMost && value >= atLeast
}

function wording({ what, atMost, atLeast, unit = '' }: Limit): string {
  return atMost === undefined ? `${what} >= ${atLeast}${unit}` : `${what} <= ${atMost}${unit}`
}

function missedBy(limit: Limit): string {
  const { what, value, unit = '' } = limit
  const bound = limit.atMost ?? limit.atLeast ?? 0
  const percent = Math.round(Math.abs(value / bound - 1) * 100)
  return `${what} is ${rounded(value)}${unit}, missed by ${percent} %`
}

/** Lines as a table for people. */
export function benchTable(lines: readonly BenchLine[]): string {
  const head = ['bench', 'ours', 'floor', 'ratio', 'unit', 'p50', 'p95', 'n', 'ok', 'target']
  const rows = lines.map((line) => head.map((name) => cell(line[name])))
  const widths = head.map((name, column) =>
    Math.max(name.length, ...rows.map((row) => row[column]!.length)),
  )
  const print = (row: string[]) =>
    row
      .map((text, column) => text.padEnd(widths[column]!))
      .join('  ')
      .trimEnd()
  const notes = lines.flatMap((line) => (line.note ? [`${line.bench}: ${line.note}`] : []))
  return [print(head), ...rows.map(print), ...notes].join('\n')
}

function cell(value: unknown): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'MISSED'
  return String(value)
}
