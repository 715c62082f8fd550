/**
 * The embedded Postgres 18 of the development stack: made on first use, started, stopped. Its data
 * outlives it. It listens on 127.0.0.1 only, with logical replication on, and is as durable as a
 * real one (fsync and synchronous_commit stay on), so a kill -9 loses no commit.
 *
 * The caller holds the data directory (stack-lock.ts): two of these on one directory is his error.
 * Development only: one superuser, logs to a callback, no backups.
 */
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { placeCluster } from './cluster-place.js'
import { devStackError, systemCode, USE_YOUR_OWN_POSTGRES } from './dev-stack-error.js'
import { choosePort, HOST, portError, rememberedPorts, rememberPorts } from './ports.js'
import { initCluster } from './postgres-init.js'
import type { Cluster } from './postgres-init.js'
import { preparePostgresBinaries } from './postgres-binaries.js'
import { launchPostgres, PostgresExit } from './postgres-process.js'
import type { RunningPostgres } from './postgres-process.js'
import { clearOrphan } from './postmaster-orphan.js'

export interface PostgresOptions {
  /** The directory that holds everything of this stack; Postgres takes a folder in it. */
  dataDir: string
  /** 0 takes any free port. @default the port of the last run in this directory, if it is free */
  port?: number
  /** Receives Postgres' log, line by line. @default nothing listens */
  onLog?: (line: string) => void
}

export interface EmbeddedPostgres extends RunningPostgres {
  port: number
  /** A superuser's connection URL, without a database: append `/name`. */
  serverUrl: string
}

const SETTINGS = {
  listen_addresses: HOST,
  // No socket file: its usual directories are not writable for everybody.
  unix_socket_directories: '',
  wal_level: 'logical',
  max_connections: '200',
  // A sync server takes one of each, and in a test run every file has its own.
  max_wal_senders: '64',
  max_replication_slots: '64',
  // A slot that a killed test left behind would keep WAL until the disk is full.
  max_slot_wal_keep_size: '1GB',
  jit: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
}

const PORT_WISH = { service: 'Postgres', option: 'postgresPort (--port)' }
/** A port that was free at the probe may be taken at the bind; only our own choice is retried. */
const PORT_ATTEMPTS = 3

export async function startPostgres(options: PostgresOptions): Promise<EmbeddedPostgres> {
  const onLog = options.onLog ?? (() => {})
  const cluster = await prepareCluster(options.dataDir, onLog)
  await clearOrphan(cluster.dir, onLog)
  const { port, running } = await launchOnPort(cluster, options, onLog)
  await rememberPorts(options.dataDir, { postgres: port })
  const password = (await readFile(cluster.passwordFile, 'utf8')).trim()
  return { ...running, port, serverUrl: `postgres://postgres:${password}@${HOST}:${port}` }
}

async function prepareCluster(dataDir: string, onLog: (line: string) => void): Promise<Cluster> {
  const place = await placeCluster(dataDir)
  if (place.moved) onLog(`${dataDir} cannot be entered by Postgres' user; data is in ${place.dir}`)
  const binaries = await preparePostgresBinaries(place.user)
  const cluster: Cluster = {
    ...binaries,
    user: place.user,
    dir: join(place.dir, 'postgres'),
    passwordFile: join(place.dir, 'postgres-password'),
  }
  await initCluster(cluster, randomBytes(16).toString('hex'), onLog)
  return cluster
}

async function launchOnPort(
  cluster: Cluster,
  options: PostgresOptions,
  onLog: (line: string) => void,
): Promise<{ port: number; running: RunningPostgres }> {
  let remembered = (await rememberedPorts(options.dataDir)).postgres
  for (let attempt = 1; ; attempt += 1) {
    const port = await choosePort({ ...PORT_WISH, port: options.port, remembered })
    try {
      const { postgres: program, user } = cluster
      const running = await launchPostgres({ program, args: argsFor(cluster, port), user, onLog })
      return { port, running }
    } catch (thrown) {
      if (!saysPortInUse(thrown)) throw startError(thrown)
      if (options.port || attempt === PORT_ATTEMPTS) throw portError(PORT_WISH, port, thrown)
      remembered = undefined
    }
  }
}

function argsFor(cluster: Cluster, port: number): string[] {
  const settings = Object.entries(SETTINGS).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  return ['-D', cluster.dir, '-p', String(port), ...settings]
}

function saysPortInUse(thrown: unknown): boolean {
  if (!(thrown instanceof PostgresExit)) return false
  return thrown.lastLines.some((line) => line.includes('Address already in use'))
}

function startError(thrown: unknown): Error {
  if (!(thrown instanceof PostgresExit)) return thrown as Error
  if (systemCode(thrown.cause) === 'EPERM') {
    return devStackError(
      'Postgres refuses to run as root, and this system does not let root start it as another ' +
        `user. Start the stack as an ordinary user, or ${USE_YOUR_OWN_POSTGRES}.`,
      thrown,
    )
  }
  return devStackError(
    `The embedded Postgres did not start: ${thrown.message}. Its last words:\n` +
      `${thrown.lastLines.join('\n')}\n` +
      `Choose another data directory (dataDir, --data-dir), or ${USE_YOUR_OWN_POSTGRES}.`,
    thrown,
  )
}
