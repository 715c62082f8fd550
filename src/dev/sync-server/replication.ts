/**
 * The replication session: whole transactions in commit order, for as long as the server runs. When
 * the session ends (Postgres restarted, the connection broke) the slot is gone and with it the
 * knowledge of what happened meanwhile: `onLost` starts every shape over, and a new session begins.
 *
 * `onTransaction` may return a promise: no more is read from the socket until it resolves.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { LogicalReplicationService, Pgoutput } from 'pg-logical-replication'
import type { SyncPeers } from './peers.js'
import { createTextPlugin, lsnNumber, relationOf } from './pgoutput-text.js'
import type { Decoded, Relation, Row, Slot } from './pgoutput-text.js'
import { textConnectionConfig } from './text-connections.js'

export interface RowChange {
  relation: Relation
  old: Row | null
  new: Row | null
}

export interface Transaction {
  xid: number
  /** Of its commit, and so in commit order. */
  lsn: bigint
  changes: RowChange[]
  /** The tables that were emptied, by oid. */
  truncated: number[]
}

export interface ReplicationOptions {
  peers: SyncPeers
  databaseUrl: string
  publication: string
  onTransaction(transaction: Transaction): Promise<void> | void
  /** Before each session: what it needs in the database. */
  prepare(): Promise<void>
  /** A session began that tells what commits after this lsn. */
  onStarted(lsn: bigint): void
  onLost(why: string): void
}

export interface Replication {
  /** The backend of the present session. */
  readonly backendPid: number | undefined
  /** Ends the session for good. */
  stop(): Promise<void>
}

const BACKOFF_MS = [50, 100, 200, 400, 800, 1_600]
/** How often Postgres is told how far we are; it also asks by itself. */
const ACKNOWLEDGE_MS = 2_000

export function startReplication(options: ReplicationOptions): Replication {
  const stopped = new AbortController()
  let service: LogicalReplicationService | undefined
  let backendPid: number | undefined
  const run = async () => {
    for (let failures = 0; !stopped.signal.aborted; failures += 1) {
      const session = createSession(options, (slot) => (backendPid = slot.backendPid))
      service = session.service
      const why = await session.ended(() => (failures = 0))
      backendPid = undefined
      if (stopped.signal.aborted) return
      options.onLost(why)
      const wait = BACKOFF_MS[Math.min(failures, BACKOFF_MS.length - 1)]
      await pause(wait, undefined, { signal: stopped.signal }).catch(() => {})
    }
  }
  const running = run()
  return {
    get backendPid() {
      return backendPid
    },
    async stop() {
      stopped.abort()
      await service?.destroy().catch(() => {})
      await running
    },
  }
}

function createSession(options: ReplicationOptions, onSlot: (slot: Slot) => void) {
  const { peers } = options
  const service = new peers.replication.LogicalReplicationService(
    textConnectionConfig(options.databaseUrl),
    { acknowledge: { auto: false, timeoutSeconds: 0 }, flowControl: { enabled: true } },
  )
  const slot = `electric_ai_db_dev_sync_${randomBytes(8).toString('hex')}`
  const ended = async (onStarted: () => void): Promise<string> => {
    let reached = 0n
    const acknowledge = () => void service.acknowledge(lsnText(reached - 1n)).catch(() => {})
    const timer = setInterval(() => reached > 0n && acknowledge(), ACKNOWLEDGE_MS)
    timer.unref()
    try {
      await options.prepare()
      const failed = new Promise<never>((_, reject) => {
        service.on('error', reject)
        const assemble = createAssembler(options.onTransaction, reject)
        service.on('data', (lsn, message: Decoded) => {
          reached = maxLsn(reached, lsnNumber(lsn))
          return assemble(message)
        })
      })
      failed.catch(() => {})
      let begin = 0n
      service.on('start', () => {
        onStarted()
        options.onStarted(begin)
      })
      // A fast shutdown of Postgres waits until we say that we have read to its end, to the byte.
      service.on('heartbeat', (lsn, _time, shouldRespond) => {
        reached = maxLsn(reached, lsnNumber(lsn))
        if (shouldRespond) acknowledge()
      })
      const plugin = createTextPlugin(peers, options.publication, (slot) => {
        begin = slot.lsn
        onSlot(slot)
      })
      await Promise.race([service.subscribe(plugin, slot), failed])
      return 'closed by Postgres'
    } catch (thrown) {
      return thrown instanceof Error ? thrown.message : String(thrown)
    } finally {
      clearInterval(timer)
      await service.destroy().catch(() => {})
    }
  }
  return { service, ended }
}

function createAssembler(
  onTransaction: ReplicationOptions['onTransaction'],
  onBroken: (error: unknown) => void,
) {
  let current: Transaction | undefined
  return (message: Decoded): Promise<void> | void => {
    switch (message.tag) {
      case 'begin':
        current = {
          xid: message.xid >>> 0,
          lsn: lsnNumber(message.commitLsn!),
          changes: [],
          truncated: [],
        }
        return
      case 'insert':
      case 'update':
      case 'delete':
        current?.changes.push(rowChange(message))
        return
      case 'truncate':
        current?.truncated.push(...message.relations.map((relation) => relationOf(relation).oid))
        return
      case 'commit': {
        const whole = current
        current = undefined
        return whole && onTransaction(whole)
      }
      case 'broken':
        onBroken(message.error)
        return
      case 'relation':
      case 'type':
      case 'origin':
      case 'message':
        return
    }
  }
}

function rowChange(
  message: Pgoutput.MessageInsert | Pgoutput.MessageUpdate | Pgoutput.MessageDelete,
): RowChange {
  return {
    relation: relationOf(message.relation),
    old: message.tag === 'insert' ? null : message.old,
    new: message.tag === 'delete' ? null : message.new,
  }
}

function lsnText(lsn: bigint): string {
  return `${(lsn >> 32n).toString(16)}/${(lsn & 0xffff_ffffn).toString(16)}`
}

function maxLsn(a: bigint, b: bigint): bigint {
  return a > b ? a : b
}
