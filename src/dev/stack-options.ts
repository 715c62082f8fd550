/** What `startDevStack` takes, and what it makes of it. */
import { resolve } from 'node:path'
import { AiDbError } from '../errors.js'

export interface DevStackOptions {
  /** One directory for everything the stack keeps. @default '.electric-ai-db' in the working directory */
  dataDir?: string
  /** Port of Postgres; 0 takes any free one. @default the port of the last run in `dataDir` */
  postgresPort?: number
  /** Port of the streams server; 0 takes any free one. @default the port of the last run in `dataDir` */
  streamsPort?: number
  /** Port of the sync server; 0 takes any free one. @default the port of the last run in `dataDir` */
  syncPort?: number
  /** The database that `databaseUrl` names, created when absent. @default 'ai_db_dev' */
  database?: string
  /**
   * Where DATABASE_URL, STREAMS_URL and ELECTRIC_URL are looked up: a service that has its URL there
   * is used as it is and not started. @default process.env
   */
  env?: Readonly<Record<string, string | undefined>>
  /** Receives what the services log, line by line. @default nothing listens */
  onLog?: (line: string) => void
}

/** The ports stay absent when the caller has no wish. */
export type ResolvedDevStackOptions = Required<Omit<DevStackOptions, PortName>> &
  Pick<DevStackOptions, PortName>

type PortName = 'postgresPort' | 'streamsPort' | 'syncPort'

const KNOWN: Record<keyof DevStackOptions, true> = {
  dataDir: true,
  postgresPort: true,
  streamsPort: true,
  syncPort: true,
  database: true,
  env: true,
  onLog: true,
}

export function resolveDevStackOptions(options: DevStackOptions): ResolvedDevStackOptions {
  for (const name of Object.keys(options)) {
    if (!(name in KNOWN)) {
      throw invalid(
        name,
        `is not an option of startDevStack. Use ${Object.keys(KNOWN).join(', ')}.`,
      )
    }
  }
  checkPort('postgresPort', options.postgresPort)
  checkPort('streamsPort', options.streamsPort)
  checkPort('syncPort', options.syncPort)
  checkDatabase(options.database)
  return {
    ...options,
    dataDir: resolve(options.dataDir ?? '.electric-ai-db'),
    database: options.database ?? 'ai_db_dev',
    env: options.env ?? process.env,
    onLog: options.onLog ?? (() => {}),
  }
}

function checkPort(name: PortName, port: number | undefined): void {
  if (port === undefined || (Number.isInteger(port) && port >= 0 && port <= 65_535)) return
  throw invalid(name, `is ${port}. Give a whole number from 0 (any free port) to 65535.`)
}

/** Drivers do not agree on how a URL escapes a name, so only names that need no escaping. */
function checkDatabase(name: string | undefined): void {
  if (name === undefined || /^[\w-]{1,63}$/.test(name)) return
  throw invalid('database', `is '${name}'. Use up to 63 letters, digits, '_' and '-'.`)
}

function invalid(field: string, problem: string): AiDbError {
  return new AiDbError('INVALID_OPTION', `${field} ${problem}`, { field })
}
