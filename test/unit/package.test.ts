/** What `package.json` promises against what the build produces and what is installed. */
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { satisfies } from 'semver'
import { describe, expect, it } from 'vitest'
import { commonJsEntries, entries } from '../../tsup.config'
import { buildGraph, packageOf, readSources } from '../support/import-graph'

const root = new URL('../../', import.meta.url)

type Targets = string | { [condition: string]: Targets }

interface Manifest {
  version: string
  type: string
  bin: Record<string, string>
  exports: Record<string, Targets>
  dependencies: Record<string, string>
  peerDependencies: Record<string, string>
  devDependencies: Record<string, string>
}

const manifest = readJson<Manifest>('package.json')
const peers = Object.entries(manifest.peerDependencies)

function readJson<T>(path: string): T {
  return JSON.parse(readFileSync(new URL(path, root), 'utf8')) as T
}

function installedVersion(name: string): string {
  return readJson<Manifest>(`node_modules/${name}/package.json`).version
}

function filesOf(targets: Targets): string[] {
  return typeof targets === 'string' ? [targets] : Object.values(targets).flatMap(filesOf)
}

function builtFiles(name: string): string[] {
  const isCommonJs = commonJsEntries.some((one) => one === name)
  const endings = ['.js', '.d.ts', ...(isCommonJs ? ['.cjs', '.d.cts'] : [])]
  return endings.map((ending) => `./dist/${name}${ending}`)
}

describe('the exports map', () => {
  const exported = Object.values(manifest.exports)
    .flatMap(filesOf)
    .filter((path) => path !== './package.json')
  const bins = Object.values(manifest.bin)
  const libraryEntries = Object.keys(entries).filter((name) => !bins.includes(`dist/${name}.js`))

  it('names exactly the files that the build produces', () => {
    expect(exported.sort()).toEqual(libraryEntries.flatMap(builtFiles).sort())
  })

  it('names each entry after its path', () => {
    const paths = libraryEntries.map((name) => (name === 'index' ? '.' : `./${name}`))
    expect(Object.keys(manifest.exports).sort()).toEqual([...paths, './package.json'].sort())
  })

  it('puts the types first in every set of conditions, as TypeScript reads in order', () => {
    const nested = JSON.stringify(manifest.exports).match(/"default"|"types"/g) ?? []
    expect(nested.filter((_, index) => index % 2 === 0)).not.toContain('"default"')
  })

  it.each(Object.values(entries))('is built from %s', (source) => {
    expect(existsSync(new URL(source, root))).toBe(true)
  })
})

describe('bin', () => {
  it.each(Object.entries(manifest.bin))('%s is built from a source with a shebang', (_, file) => {
    const name = file.replace(/^dist\//, '').replace(/\.js$/, '')
    const source = entries[name as keyof typeof entries]
    expect(readFileSync(new URL(source, root), 'utf8')).toMatch(/^#!\/usr\/bin\/env node\n/)
  })
})

describe('dependencies', () => {
  it.each(peers)('peer %s %s contains the installed version', (name, range) => {
    expect(installedVersion(name)).toSatisfy((version: string) => satisfies(version, range))
  })

  it('installs every peer for its own tests', () => {
    expect(Object.keys(manifest.devDependencies)).toEqual(
      expect.arrayContaining(peers.map(([name]) => name)),
    )
  })

  it('declares every package that src/ imports: what is only a devDependency would be bundled', () => {
    const declared = { ...manifest.dependencies, ...manifest.peerDependencies }
    const imported = [...buildGraph(readSources(fileURLToPath(root), 'src'))]
      .flatMap(([path, imports]) => imports.map((one) => ({ ...one, path })))
      .filter(({ internal, to }) => !internal && !packageOf(to).startsWith('node:'))
      .filter(({ to }) => !(packageOf(to) in declared))
    expect(imported.map(({ path, to }) => `${path} imports ${to}`)).toEqual([])
  })

  it('locks no registry host', () => {
    const lock = readJson<{ packages: Record<string, { resolved?: string }> }>('package-lock.json')
    const hosts = Object.values(lock.packages).filter(({ resolved }) => resolved !== undefined)
    expect(hosts).toEqual([])
  })

  it.each(['@tanstack/db', '@durable-streams/client', 'drizzle-orm'])(
    'locks one copy of %s: a second one fails in silence',
    (name) => {
      const lock = readJson<{ packages: Record<string, unknown> }>('package-lock.json')
      const copies = Object.keys(lock.packages).filter((path) =>
        path.endsWith(`node_modules/${name}`),
      )
      expect(copies).toEqual([`node_modules/${name}`])
    },
  )
})
