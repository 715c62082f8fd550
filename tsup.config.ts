/**
 * The build. `dist` stays flat (one level, the CLI apart): files that the library looks up at run
 * time (`drizzle/`, `migrations/`) are found as `new URL('../drizzle/', import.meta.url)` from a file
 * directly in `src/`, and bundling moves that code to a file directly in `dist/`.
 */
import { existsSync } from 'node:fs'
import { defineConfig, type Options } from 'tsup'

/** Output name → source. `test/unit/package.test.ts` holds it against the exports map and `bin`. */
export const entries = {
  index: 'src/index.ts',
  server: 'src/server.ts',
  client: 'src/client.ts',
  schema: 'src/schema.ts',
  dev: 'src/dev.ts',
  testing: 'src/testing.ts',
  'cli/main': 'src/cli/main.ts',
}

/** Also as CommonJS: drizzle-kit 0.31 loads a host's schema through `require`. */
export const commonJsEntries = ['schema'] as const satisfies readonly (keyof typeof entries)[]

function existing(all: Record<string, string>): Record<string, string> {
  const missing = Object.values(all).filter((source) => !existsSync(source))
  for (const source of missing)
    console.warn(`tsup: ${source} does not exist, its entry is left out`)
  return Object.fromEntries(Object.entries(all).filter(([, source]) => !missing.includes(source)))
}

const shared: Options = {
  target: 'node20',
  platform: 'neutral',
  sourcemap: true,
  splitting: true,
  external: [/^node:/],
}

export default defineConfig(() => {
  const sources = existing(entries)
  const { 'cli/main': _cli, ...typed } = sources
  const commonJs = commonJsEntries.filter((name) => name in sources)
  return [
    { ...shared, entry: sources, format: 'esm', dts: { entry: typed } },
    {
      ...shared,
      entry: Object.fromEntries(commonJs.map((name) => [name, entries[name]])),
      format: 'cjs',
      splitting: false,
      dts: true,
    },
  ]
})
