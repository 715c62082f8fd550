/**
 * The import graph of a set of TypeScript sources and what can be asked of it. Pure: sources go in as
 * text, so that a checker is itself tested on three made-up files. `readSources` reads the real ones.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { builtinModules } from 'node:module'
import { join, posix } from 'node:path'
import ts from 'typescript'
import { layerOf, mayImport, restrictions, unitOf } from './layers'

export interface Import {
  /** A path of the graph (`src/a/b.ts`), or the specifier of a package. */
  readonly to: string
  readonly internal: boolean
  /** Erased by the compiler: cannot pull anything into a bundle. */
  readonly typeOnly: boolean
}

/** Path → what the file imports. */
export type ImportGraph = ReadonlyMap<string, readonly Import[]>

/** Every .ts file under `folder`, by its path relative to `root`, with `/` between. */
export function readSources(root: string, folder: string): Map<string, string> {
  const names = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
  const paths = names.filter((name) => /\.tsx?$/.test(name)).map((name) => join(folder, name))
  return new Map(
    paths
      .sort()
      .map((path) => [path.replaceAll('\\', '/'), readFileSync(join(root, path), 'utf8')]),
  )
}

export function buildGraph(sources: ReadonlyMap<string, string>): ImportGraph {
  const paths = new Set(sources.keys())
  return new Map([...sources].map(([path, text]) => [path, importsOf(path, text, paths)]))
}

function importsOf(path: string, text: string, paths: ReadonlySet<string>): Import[] {
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, false)
  const found: Import[] = []
  const add = (specifier: ts.Node | undefined, typeOnly: boolean) => {
    if (specifier === undefined || !ts.isStringLiteralLike(specifier)) return
    const internal = specifier.text.startsWith('.')
    const to = internal ? resolveRelative(path, specifier.text, paths) : specifier.text
    found.push({ to, internal, typeOnly })
  }
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) {
      add(node.moduleSpecifier, node.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword)
    } else if (ts.isExportDeclaration(node)) {
      add(node.moduleSpecifier, node.isTypeOnly)
    } else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
      add(node.argument.literal, true)
    } else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      add(node.arguments[0], false)
    }
    ts.forEachChild(node, visit)
  }
  visit(file)
  return found
}

function resolveRelative(from: string, specifier: string, paths: ReadonlySet<string>): string {
  const plain = posix.join(posix.dirname(from), specifier)
  const stem = plain.replace(/\.js$/, '')
  const candidates = [plain, `${stem}.ts`, `${stem}.tsx`, `${stem}/index.ts`]
  return candidates.find((candidate) => paths.has(candidate)) ?? plain
}

/** `@tanstack/ai/adapters` → `@tanstack/ai`; every built-in keeps or gets its `node:`. */
export function packageOf(specifier: string): string {
  if (builtinModules.includes(specifier)) return `node:${specifier}`
  if (specifier.startsWith('node:')) return specifier
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
}

/** One sentence for every import the layer table forbids, and for every file it does not know. */
export function layerViolations(graph: ImportGraph): string[] {
  const unknown = [...graph.keys()].filter((path) => layerOf(unitOf(path)) === -1)
  const forbidden = edges(graph).flatMap(({ from, to, internal }) => {
    const unit = unitOf(from)
    if (internal && mayImport(unit, unitOf(to))) return []
    if (!internal && mayUsePackage(unit, to)) return []
    return [`${from} imports ${to}: ${unit} may not, see test/support/layers.ts`]
  })
  return [
    ...unknown.map((path) => `${path}: ${unitOf(path)} is in no layer, see test/support/layers.ts`),
    ...forbidden,
  ]
}

function mayUsePackage(unit: string, specifier: string): boolean {
  return restrictions[unit]?.packages.includes(packageOf(specifier)) ?? true
}

function edges(graph: ImportGraph): (Import & { from: string })[] {
  return [...graph].flatMap(([from, imports]) => imports.map((one) => ({ ...one, from })))
}

/**
 * The packages that importing `entry` loads, each with the chain of files that leads to it.
 * Type-only imports are not followed; a dynamic `import()` is.
 */
export function loadedPackages(graph: ImportGraph, entry: string): Map<string, string[]> {
  const chains = new Map([[entry, [entry]]])
  const packages = new Map<string, string[]>()
  for (const [path, chain] of chains) {
    for (const { to, internal, typeOnly } of graph.get(path) ?? []) {
      if (typeOnly) continue
      const seen = internal ? chains : packages
      const name = internal ? to : packageOf(to)
      if (!seen.has(name)) seen.set(name, [...chain, name])
    }
  }
  return packages
}

/** Every group of nodes that can reach each other; `[]` when the graph has no cycle. */
export function findCycles(nodes: ReadonlyMap<string, readonly string[]>): string[] {
  const cycles = new Map<string, string>()
  const done = new Set<string>()
  const walk = (node: string, trail: readonly string[]): void => {
    const start = trail.indexOf(node)
    if (start !== -1) {
      const cycle = trail.slice(start)
      const key = [...cycle].sort().join()
      if (!cycles.has(key)) cycles.set(key, [...cycle, node].join(' → '))
      return
    }
    if (done.has(node)) return
    for (const next of nodes.get(node) ?? []) walk(next, [...trail, node])
    done.add(node)
  }
  for (const node of nodes.keys()) walk(node, [])
  return [...cycles.values()]
}

/** File → the files it imports, types included. */
export function fileEdges(graph: ImportGraph): Map<string, string[]> {
  return new Map(
    [...graph].map(([path, all]) => [path, all.filter((one) => one.internal).map((one) => one.to)]),
  )
}

/** Unit → the other units it imports, types included. */
export function unitEdges(graph: ImportGraph): Map<string, string[]> {
  const units = new Map<string, string[]>()
  for (const { from, to, internal } of edges(graph)) {
    const [unit, other] = [unitOf(from), unitOf(to)]
    if (internal && unit !== other) units.set(unit, [...(units.get(unit) ?? []), other])
  }
  return units
}
