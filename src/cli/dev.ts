/**
 * `electric-ai-db dev`: the development stack until Ctrl-C. Its URLs go to stdout in the form of
 * an env file, so `electric-ai-db dev > .env.local` and a copy of the lines both work; everything
 * said to the person goes to stderr.
 */
import { once } from 'node:events'
import { parseArgs } from 'node:util'
import { startDevStack } from '../dev/stack.js'
import type { DevStack } from '../dev/stack.js'
import type { DevStackOptions } from '../dev/stack-options.js'
import { AiDbError, toError } from '../errors.js'

const USAGE = `Usage: electric-ai-db dev [--data-dir D] [--port N] [--streams-port N]
                           [--sync-port N] [--verbose]

Starts Postgres, a Durable Streams server and a sync server that speaks Electric's protocol on this
machine, for development only.

  --data-dir D        where everything is kept (default .electric-ai-db)
  --port N            port of Postgres (default: that of the last run, or any free one)
  --streams-port N    port of the streams server (default: likewise)
  --sync-port N       port of the sync server (default: likewise)
  --verbose           also print what the services log

A service whose DATABASE_URL, STREAMS_URL or ELECTRIC_URL is set is not started.`

export async function dev(argv: string[]): Promise<number> {
  try {
    const wish = readArguments(argv)
    if (wish === undefined) {
      console.log(USAGE)
      return 0
    }
    const stop = stopSignal()
    const stack = await startDevStack(wish)
    announce(stack)
    if (startedAny(stack)) await stop
    await stack.stop()
    return 0
  } catch (thrown) {
    const misused = !(thrown instanceof AiDbError) && thrown instanceof TypeError
    console.error(misused ? `${thrown.message}\n\n${USAGE}` : toError(thrown).message)
    return misused ? 2 : 1
  }
}

/** Undefined when help was asked for. Throws a TypeError, as parseArgs does, on what it cannot read. */
function readArguments(argv: string[]): DevStackOptions | undefined {
  const { values } = parseArgs({
    args: argv,
    options: {
      'data-dir': { type: 'string' },
      port: { type: 'string' },
      'streams-port': { type: 'string' },
      'sync-port': { type: 'string' },
      verbose: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  })
  if (values.help) return undefined
  return {
    dataDir: values['data-dir'],
    postgresPort: readPort('--port', values.port),
    streamsPort: readPort('--streams-port', values['streams-port']),
    syncPort: readPort('--sync-port', values['sync-port']),
    onLog: values.verbose ? (line) => console.error(line) : undefined,
  }
}

function readPort(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (/^\d{1,5}$/.test(text)) return Number(text)
  throw new TypeError(`${flag} takes a port number, not '${text}'.`)
}

/** Only the first signal is ours: a second one, from somebody who lost patience, kills as usual. */
async function stopSignal(): Promise<void> {
  const heard = new AbortController()
  const { signal } = heard
  await Promise.race([once(process, 'SIGINT', { signal }), once(process, 'SIGTERM', { signal })])
  heard.abort()
}

function announce(stack: DevStack): void {
  console.log(`DATABASE_URL=${stack.databaseUrl}`)
  console.log(`STREAMS_URL=${stack.streamsUrl}`)
  console.log(`ELECTRIC_URL=${stack.electricUrl}`)
  if (!startedAny(stack)) {
    console.error('All services are given by the environment: nothing to start.')
    return
  }
  console.error(`Ready in ${stack.readyMs} ms, development only. Data: ${stack.dataDir}`)
  console.error('Press Ctrl-C to stop.')
}

function startedAny({ started }: DevStack): boolean {
  return Object.values(started).includes(true)
}
