/**
 * The layers of `src/`, as data: the one source for the lint rule (eslint.config.js) and for
 * `test/unit/architecture.test.ts`. A unit is a folder of `src/` (`claims/`) or a file at its root
 * (`errors.ts`). Imports go down only, types included.
 */

export interface Layer {
  readonly units: readonly string[]
  /**
   * May units of this layer import each other?
   * `never`: they are independent. `one-way`: yes, as long as the units form no cycle.
   */
  readonly among: 'never' | 'one-way'
}

/** Lowest first. A unit may import every unit of a lower layer, and itself. */
export const layers: readonly Layer[] = [
  { units: ['contract/', 'errors.ts'], among: 'one-way' },
  { units: ['schema.ts', 'schema/', 'internal/'], among: 'one-way' },
  {
    units: ['claims/', 'sessions/', 'tools/', 'streams/', 'electric/', 'migrate.ts'],
    among: 'never',
  },
  { units: ['runner/', 'generation/', 'fibers/'], among: 'one-way' },
  { units: ['agent/'], among: 'one-way' },
  { units: ['handler/', 'client/', 'dev/', 'cli/', 'testing/'], among: 'one-way' },
  { units: ['index.ts', 'server.ts', 'client.ts', 'dev.ts', 'testing.ts'], among: 'one-way' },
]

/** What a unit may import when its layer alone would allow more. */
export interface Restriction {
  readonly units: readonly string[]
  /** Packages by name; subpaths of a package come with it. `node:*` counts as a package. */
  readonly packages: readonly string[]
}

export const restrictions: Readonly<Record<string, Restriction>> = {
  'contract/': { units: ['errors.ts'], packages: ['zod'] },
  'errors.ts': { units: [], packages: [] },
  'testing/': {
    units: ['contract/', 'errors.ts', 'internal/', 'streams/', 'runner/'],
    packages: ['@tanstack/ai'],
  },
}

/** Files whose graph must stay free of `serverOnly`; a folder's file is listed when it is read in a browser. */
export const browserSafe: readonly string[] = [
  'src/index.ts',
  'src/client.ts',
  'src/streams/transcript.ts',
  'src/streams/reader.ts',
]

/** Packages that do not run in a browser. `node:` stands for every built-in. */
export const serverOnly: readonly string[] = ['drizzle-orm', 'postgres', 'pg', 'node:']

/** Names that say nothing: a type lives beside its use, a function in the file named after it. */
export const forbiddenNames: readonly string[] = [
  'utils',
  'util',
  'helpers',
  'helper',
  'types',
  'common',
  'interfaces',
]

/** `src/claims/settle.ts` → `claims/`, `src/errors.ts` → `errors.ts`. */
export function unitOf(path: string): string {
  const [first = '', ...rest] = path.replace(/^src\//, '').split('/')
  return rest.length > 0 ? `${first}/` : first
}

/** The index of a unit's layer, or -1 for a unit the table does not know. */
export function layerOf(unit: string): number {
  return layers.findIndex((layer) => layer.units.includes(unit))
}

/** Does the table allow unit `from` to import unit `to`? */
export function mayImport(from: string, to: string): boolean {
  if (from === to) return true
  const lower = layerOf(to)
  const upper = layerOf(from)
  if (lower === -1 || upper === -1) return false
  const restriction = restrictions[from]
  if (restriction) return restriction.units.includes(to)
  return lower < upper || (lower === upper && layers[upper]?.among === 'one-way')
}

/** Every unit the table forbids `from` to import. */
export function forbiddenUnits(from: string): string[] {
  return layers.flatMap((layer) => layer.units).filter((to) => !mayImport(from, to))
}
