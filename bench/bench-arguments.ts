/** What `npm run bench -- [--quick] [name …]` takes; anything else is an error that names what there is. */
import { AiDbError } from '../src/errors.js'
import { nearest } from '../src/internal/options.js'

/** In the order they run. */
export const BENCH_NAMES = [
  'pickup',
  'tool-roundtrip',
  'turns',
  'tokens',
  'recovery',
  'enqueue',
  'sync',
  'prd',
] as const

export type BenchName = (typeof BENCH_NAMES)[number]

export interface BenchArguments {
  /** Fewer samples: all benches in under two minutes. */
  quick: boolean
  names: readonly BenchName[]
}

/** @throws AiDbError INVALID_OPTION. */
export function parseBenchArguments(argv: readonly string[]): BenchArguments {
  const flags = argv.filter((word) => word.startsWith('-'))
  const wrong = flags.find((flag) => flag !== '--quick')
  if (wrong !== undefined) throw invalid(`unknown option '${wrong}'`, wrong, ['--quick'])
  const words = argv.filter((word) => !word.startsWith('-'))
  for (const word of words) {
    if (!isBenchName(word)) throw invalid(`there is no bench '${word}'`, word, BENCH_NAMES)
  }
  return {
    quick: flags.length > 0,
    names: words.length === 0 ? BENCH_NAMES : BENCH_NAMES.filter((name) => words.includes(name)),
  }
}

function isBenchName(word: string): word is BenchName {
  return (BENCH_NAMES as readonly string[]).includes(word)
}

function invalid(problem: string, given: string, known: readonly string[]): AiDbError {
  const near = nearest(given, known)
  return new AiDbError(
    'INVALID_OPTION',
    `bench: ${problem}${near === undefined ? '.' : `; did you mean '${near}'?`} ` +
      `Usage: npm run bench -- [--quick] [name …], names: ${BENCH_NAMES.join(', ')}.`,
    { field: given },
  )
}
