/** The shape of `src/` as a test: the layer table, browser safety, names and cycles. */
import { fileURLToPath } from 'node:url'
import { basename } from 'node:path'
import { describe, expect, it } from 'vitest'
import {
  buildGraph,
  fileEdges,
  findCycles,
  layerViolations,
  loadedPackages,
  readSources,
  unitEdges,
} from '../support/import-graph'
import { browserSafe, forbiddenNames, layers, serverOnly } from '../support/layers'

const root = fileURLToPath(new URL('../..', import.meta.url))
const graph = buildGraph(readSources(root, 'src'))

function graphOf(sources: Record<string, string>) {
  return buildGraph(new Map(Object.entries(sources)))
}

/** One line per forbidden package that loading `entry` would load, with the way to it. */
function serverOnlyIn(modules: typeof graph, entry: string): string[] {
  const isServerOnly = (name: string) =>
    serverOnly.some((one) => (one.endsWith(':') ? name.startsWith(one) : name === one))
  return [...loadedPackages(modules, entry)]
    .filter(([name]) => isServerOnly(name))
    .map(([, chain]) => chain.join(' → '))
}

function badNames(paths: Iterable<string>): string[] {
  return [...paths].filter((path) => {
    const name = basename(path).replace(/\.tsx?$/, '')
    return forbiddenNames.includes(name) || !/^[a-z0-9]+(-[a-z0-9]+)*$/.test(name)
  })
}

describe('src/', () => {
  it('imports downwards only, and every folder has a layer', () => {
    expect(graph.size).toBeGreaterThan(0)
    expect(layerViolations(graph)).toEqual([])
  })

  it('resolves every relative import to a file of src/', () => {
    const missing = [...fileEdges(graph)].flatMap(([from, all]) =>
      all.filter((to) => !graph.has(to)).map((to) => `${from} imports ${to}`),
    )
    expect(missing).toEqual([])
  })

  it('has no import cycle between files, types included', () => {
    expect(findCycles(fileEdges(graph))).toEqual([])
  })

  it('has no import cycle between folders', () => {
    expect(findCycles(unitEdges(graph))).toEqual([])
  })

  // `src/client.ts` is not part of this version; it is checked from the day it is there.
  it.each(browserSafe.filter((entry) => graph.has(entry)))(
    '%s loads nothing that a browser lacks',
    (entry) => {
      expect(serverOnlyIn(graph, entry)).toEqual([])
    },
  )

  it('names each file in kebab-case after what it holds', () => {
    expect(badNames(graph.keys())).toEqual([])
  })
})

describe('the layer checker', () => {
  it('refuses an import that goes up', () => {
    const modules = graphOf({
      'src/claims/claim.ts': `import { worker } from '../runner/worker.js'`,
      'src/runner/worker.ts': `export const worker = 1`,
    })
    expect(layerViolations(modules)).toEqual([
      'src/claims/claim.ts imports src/runner/worker.ts: claims/ may not, see test/support/layers.ts',
    ])
  })

  it('refuses a type-only import that goes up', () => {
    const modules = graphOf({
      'src/contract/records.ts': `import type { x } from '../internal/x'`,
      'src/internal/x.ts': `export type x = 1`,
    })
    expect(layerViolations(modules)).toHaveLength(1)
  })

  it('refuses neighbours in a layer whose units are independent, allows them elsewhere', () => {
    const modules = graphOf({
      'src/tools/a.ts': `export * from '../streams/b'`,
      'src/streams/b.ts': `export const b = 1`,
      'src/cli/dev.ts': `import '../dev/stack'`,
      'src/dev/stack.ts': `const lazy = await import('../cli/late')`,
    })
    expect(layerViolations(modules)[0]).toMatch(/^src\/tools\/a\.ts imports src\/streams\/b\.ts/)
    expect(layerViolations(modules).filter((line) => line.startsWith('src/cli/'))).toEqual([])
  })

  it('refuses an unknown folder and an unknown root file', () => {
    const modules = graphOf({ 'src/stuff/a.ts': '', 'src/extra.ts': '' })
    expect(layerViolations(modules).map((line) => line.split(',')[0])).toEqual([
      'src/stuff/a.ts: stuff/ is in no layer',
      'src/extra.ts: extra.ts is in no layer',
    ])
  })

  it('refuses a package outside a restricted folder’s list, not its subpaths', () => {
    const modules = graphOf({
      'src/testing/a.ts': `import '@tanstack/ai/adapters'\nimport 'postgres'`,
    })
    expect(layerViolations(modules)).toEqual([
      'src/testing/a.ts imports postgres: testing/ may not, see test/support/layers.ts',
    ])
  })

  it('lists each unit once', () => {
    const units = layers.flatMap((layer) => layer.units)
    expect(new Set(units).size).toBe(units.length)
  })
})

describe('the browser-safety checker', () => {
  const modules = graphOf({
    'src/index.ts': `export * from './a'\nimport type { T } from './typed'`,
    'src/a.ts': `const later = () => import('./b')`,
    'src/b.ts': `import 'fs'\nimport { eq } from 'drizzle-orm/pg-core'`,
    'src/typed.ts': `import 'postgres'`,
  })

  it('finds packages behind re-exports and dynamic imports, with the way to them', () => {
    expect(serverOnlyIn(modules, 'src/index.ts')).toEqual([
      'src/index.ts → src/a.ts → src/b.ts → node:fs',
      'src/index.ts → src/a.ts → src/b.ts → drizzle-orm',
    ])
  })

  it('does not follow type-only imports', () => {
    expect(loadedPackages(modules, 'src/index.ts').has('postgres')).toBe(false)
  })
})

describe('the cycle checker', () => {
  it('finds a cycle once, also through types', () => {
    const modules = graphOf({
      'src/agent/a.ts': `import { b } from './b.js'`,
      'src/agent/b.ts': `import type { C } from './c.js'`,
      'src/agent/c.ts': `import './a.js'`,
      'src/agent/d.ts': `import './a.js'`,
    })
    expect(findCycles(fileEdges(modules))).toEqual([
      'src/agent/a.ts → src/agent/b.ts → src/agent/c.ts → src/agent/a.ts',
    ])
  })

  it('finds folders that need each other although no two files do', () => {
    const modules = graphOf({
      'src/runner/a.ts': `import '../fibers/b'`,
      'src/fibers/b.ts': '',
      'src/fibers/c.ts': `import '../runner/d'`,
      'src/runner/d.ts': '',
    })
    expect(findCycles(fileEdges(modules))).toEqual([])
    expect(findCycles(unitEdges(modules))).toEqual(['runner/ → fibers/ → runner/'])
  })
})

describe('the name checker', () => {
  it('refuses names that say nothing and names that are not kebab-case', () => {
    const paths = ['src/a/utils.ts', 'src/a/claimTools.ts', 'src/a/claim-tools.ts']
    expect(badNames(paths)).toEqual(['src/a/utils.ts', 'src/a/claimTools.ts'])
  })
})
