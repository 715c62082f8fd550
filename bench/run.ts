/**
 * The bench: `npm run bench -- [--quick] [name …]`.
 *
 * One stack for the run (the embedded one in a temporary directory, or what DATABASE_URL and STREAMS_URL
 * name). Each bench measures ours and its raw-SQL floor by turns, on the same server with the same driver,
 * and prints one JSON line on stdout; people get a table on stderr. A missed target is a line with
 * `ok: false` and a note, and the exit code stays 0: noisy machines miss targets, and whoever gates on
 * them reads the lines.
 */
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { startDevStack } from '../src/dev.js'
import { AiDbError } from '../src/errors.js'
import { parseBenchArguments, type BenchName } from './bench-arguments.js'
import { benchLine, benchTable, type BenchLine, type Measured } from './bench-line.js'
import { benchEnqueue } from './enqueue.js'
import { benchPickup } from './pickup.js'
import { benchPrd } from './prd.js'
import { benchRecovery } from './recovery.js'
import { benchSync } from './sync.js'
import { benchTokens } from './tokens.js'
import { benchToolRoundtrip } from './tool-roundtrip.js'
import { benchTurns } from './turns.js'
import { createWorld, type World } from './world.js'

const BENCHES: Record<BenchName, (world: World) => Promise<Measured>> = {
  pickup: benchPickup,
  'tool-roundtrip': benchToolRoundtrip,
  turns: benchTurns,
  tokens: benchTokens,
  recovery: benchRecovery,
  enqueue: benchEnqueue,
  sync: benchSync,
  prd: benchPrd,
}

async function main(): Promise<void> {
  const { quick, names } = parseBenchArguments(process.argv.slice(2))
  const dataDir = await mkdtemp(join(tmpdir(), 'electric-ai-db-bench-'))
  await chmod(dataDir, 0o755) // Postgres runs as another user when this runs as root.
  try {
    await using stack = await startDevStack({ dataDir })
    const world = await createWorld(stack, quick)
    try {
      console.error(benchTable(await runBenches(names, world, () => world.clear())))
    } finally {
      await world.close()
    }
  } finally {
    await rm(dataDir, { recursive: true, force: true })
  }
}

async function runBenches(
  names: readonly BenchName[],
  world: World,
  clear: () => Promise<void>,
): Promise<BenchLine[]> {
  const lines: BenchLine[] = []
  for (const name of names) {
    const began = performance.now()
    console.error(`${name} …`)
    const measured = await BENCHES[name](world)
    await clear()
    const line = {
      ...benchLine(measured),
      seconds: Math.round((performance.now() - began) / 100) / 10,
      load: Math.round((loadavg()[0] ?? 0) * 10) / 10,
    }
    console.log(JSON.stringify(line))
    lines.push(line)
  }
  return lines
}

main().catch((error: unknown) => {
  // A wrong argument is told in its own words; of anything else the stack is wanted.
  const known = error instanceof AiDbError && error.code === 'INVALID_OPTION'
  console.error(known ? error.message : error)
  process.exitCode = 1
})
