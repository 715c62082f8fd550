/**
 * Numbers of many samples. `p95` is what 95 of 100 samples are at least as good as, so of durations it
 * is near the top and of rates near the bottom.
 */

export interface Spread {
  n: number
  p50: number
  p95: number
}

/** The value below which the given share (0 to 1) of the samples lies, between neighbours by weight. */
export function percentile(samples: readonly number[], share: number): number {
  if (samples.length === 0) return Number.NaN
  const sorted = samples.toSorted((a, b) => a - b)
  const place = (sorted.length - 1) * Math.min(Math.max(share, 0), 1)
  const below = sorted[Math.floor(place)]!
  const above = sorted[Math.ceil(place)]!
  return below + (above - below) * (place - Math.floor(place))
}

export function spreadOf(samples: readonly number[], better: 'less' | 'more' = 'less'): Spread {
  return {
    n: samples.length,
    p50: percentile(samples, 0.5),
    p95: percentile(samples, better === 'less' ? 0.95 : 0.05),
  }
}

export const median = (samples: readonly number[]): number => percentile(samples, 0.5)

/** Three significant digits, and all digits before the point: enough to compare, short enough to read. */
export function rounded(value: number): number {
  if (!Number.isFinite(value)) return value
  return Math.abs(value) >= 100 ? Math.round(value) : Number(value.toPrecision(3))
}
