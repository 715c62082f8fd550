/**
 * The pgoutput decoder of `pg-logical-replication`, told to leave every value the text it came as and
 * to read from a slot that lives only as long as its session: a server that is killed leaves nothing
 * behind that would hold WAL back.
 */
import type { Client } from 'pg'
import type { Pgoutput, PgoutputPlugin } from 'pg-logical-replication'
import type { SyncPeers } from './peers.js'
import { tableSignature } from './table-facts.js'
import type { Text } from './text-connections.js'

/** undefined: a large value that did not change, and whose old one was not logged. */
export type Row = Readonly<Record<string, Text | undefined>>

export interface Relation {
  oid: number
  /** See `tableSignature`. */
  signature: string
  /** Are old rows logged whole? */
  full: boolean
}

/** `broken` is what the decoder threw: its caller is a socket, where nobody could catch it. */
export type Decoded = Pgoutput.Message | { tag: 'broken'; error: unknown }

export interface Slot {
  backendPid: number
  /** Every transaction that commits after this is told. */
  lsn: bigint
}

/** `16/B374D848` as a number. */
export function lsnNumber(text: string): bigint {
  const [high, low] = text.split('/') as [string, string]
  return (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`)
}

export function createTextPlugin(
  { replication }: SyncPeers,
  publication: string,
  onSlot: (slot: Slot) => void,
): PgoutputPlugin {
  class TextPlugin extends replication.PgoutputPlugin {
    override parse(buffer: Buffer) {
      try {
        const message = super.parse(buffer)
        if (message.tag === 'relation') {
          for (const column of message.columns) column.parser = (text: string) => text
        }
        return message
      } catch (error) {
        return { tag: 'broken', error } as unknown as Pgoutput.Message
      }
    }

    override async start(client: Client, slotName: string, lastLsn: string): Promise<unknown> {
      const made = await client.query<{ pid: string; lsn: string }>(
        `select pg_backend_pid() as pid, lsn
         from pg_create_logical_replication_slot('${slotName}', 'pgoutput', true)`,
      )
      const [{ pid, lsn }] = made.rows as [{ pid: string; lsn: string }]
      onSlot({ backendPid: Number(pid), lsn: lsnNumber(lsn) })
      return super.start(client, slotName, lastLsn)
    }
  }
  return new TextPlugin({ protoVersion: 1, publicationNames: [publication] })
}

const seen = new WeakMap<Pgoutput.MessageRelation, Relation>()

export function relationOf(message: Pgoutput.MessageRelation): Relation {
  let relation = seen.get(message)
  if (relation === undefined) {
    // The decoder reads object ids as signed numbers.
    const oid = message.relationOid >>> 0
    const columns = message.columns.map(
      ({ name, typeOid, typeMod }) => [name, typeOid >>> 0, typeMod] as const,
    )
    relation = {
      oid,
      signature: tableSignature(oid, message.schema, message.name, columns),
      full: message.replicaIdentity === 'full',
    }
    seen.set(message, relation)
  }
  return relation
}
