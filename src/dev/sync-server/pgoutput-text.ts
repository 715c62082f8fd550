/**
 * The pgoutput decoder of `pg-logical-replication`, told to leave every value the text it came as and
 * to read from a slot that lives only as long as its session: a server that is killed leaves nothing
 * behind that would hold WAL back.
 */
import type { Client } from 'pg'
import type { Pgoutput } from 'pg-logical-replication'
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

export function createTextPlugin(
  { replication }: SyncPeers,
  publication: string,
  onSlot: (backendPid: number) => void,
) {
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
      // The result of a simple query in a replication session is an ordinary one.
      const made = await client.query(
        `select pg_backend_pid(), pg_create_logical_replication_slot('${slotName}', 'pgoutput', true)`,
      )
      onSlot(Number((made.rows[0] as { pg_backend_pid: string }).pg_backend_pid))
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
