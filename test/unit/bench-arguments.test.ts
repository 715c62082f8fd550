/** What the bench accepts, and the shape of what it prints: scripts read its lines. */
import { describe, expect, it } from 'vitest'
import { BENCH_NAMES, parseBenchArguments } from '../../bench/bench-arguments.js'
import { benchLine, benchTable, type Measured } from '../../bench/bench-line.js'
import { percentile, rounded, spreadOf } from '../../bench/statistics.js'

const pickup: Measured = {
  bench: 'pickup',
  ours: 2.6,
  floor: 2,
  unit: 'ms',
  p50: 2.6,
  p95: 4.1234,
  n: 150,
  limits: [{ what: 'p50 / floor', value: 1.3, atMost: 1.3 }],
  why: 'of its indexes',
  extra: { adapterP50: 3.14159, held: true },
}

describe('arguments', () => {
  it('runs every bench when none is named, and the named ones in their usual order', () => {
    expect(parseBenchArguments([])).toEqual({ quick: false, names: BENCH_NAMES })
    expect(parseBenchArguments(['turns', '--quick', 'pickup'])).toEqual({
      quick: true,
      names: ['pickup', 'turns'],
    })
  })

  it('refuses an unknown bench, names the nearest and lists the known ones', () => {
    expect(() => parseBenchArguments(['pickups'])).toThrow(/'pickups'; did you mean 'pickup'\?/)
    for (const name of BENCH_NAMES) expect(() => parseBenchArguments(['all'])).toThrow(name)
  })

  it('refuses an unknown option', () => {
    expect(() => parseBenchArguments(['--quik'])).toThrow(/'--quik'; did you mean '--quick'\?/)
  })
})

describe('statistics', () => {
  it('takes percentiles between neighbours, whatever the order of the samples', () => {
    expect(percentile([3, 1, 2], 0.5)).toBe(2)
    expect(percentile([4, 1, 2, 3], 0.5)).toBe(2.5)
    expect(percentile([1, 2, 3], 1)).toBe(3)
    expect(percentile([], 0.5)).toBeNaN()
  })

  it('puts p95 at the bad end: high of durations, low of rates', () => {
    const samples = Array.from({ length: 101 }, (_, i) => i)
    expect(spreadOf(samples)).toEqual({ n: 101, p50: 50, p95: 95 })
    expect(spreadOf(samples, 'more')).toEqual({ n: 101, p50: 50, p95: 5 })
  })

  it('rounds to three digits and never loses one before the point', () => {
    expect([12_345.6, 0.123_456, 7.0987, 99.99].map(rounded)).toEqual([12_346, 0.123, 7.1, 100])
  })
})

describe('lines', () => {
  it('print the ratio to the floor, the target and whether it holds, and extra fields', () => {
    expect(benchLine(pickup)).toEqual({
      bench: 'pickup',
      ours: 2.6,
      floor: 2,
      ratio: 1.3,
      unit: 'ms',
      p50: 2.6,
      p95: 4.12,
      target: 'p50 / floor <= 1.3',
      ok: true,
      n: 150,
      adapterP50: 3.14,
      held: true,
    })
  })

  it('say of a missed target by how much, and why', () => {
    const limits = [
      { what: 'p50 / floor', value: 1.56, atMost: 1.3 },
      { what: 'streams held', value: 50, atLeast: 50 },
    ]
    const line = benchLine({ ...pickup, limits })
    expect(line).toMatchObject({ ok: false, target: 'p50 / floor <= 1.3, streams held >= 50' })
    expect(line.note).toBe('p50 / floor is 1.56, missed by 20 %; of its indexes')
    expect(benchTable([line])).toMatch(/MISSED/)
  })

  it('do not hold for a number that is none: a bench without samples has proven nothing', () => {
    const limits = [{ what: 'p95', value: Number.NaN, atMost: 100 }]
    expect(benchLine({ ...pickup, limits }).ok).toBe(false)
  })
})
