/**
 * Connections on which every value stays the text that Postgres writes for it, with the settings
 * Electric uses, so that a row reads the same in a snapshot, in a subset and in the log.
 */
import type pg from 'pg'
import type { SyncPeers } from './peers.js'

const SETTINGS = {
  bytea_output: 'hex',
  datestyle: 'ISO',
  timezone: 'UTC',
  intervalstyle: 'iso_8601',
  extra_float_digits: '1',
  standard_conforming_strings: 'on',
  application_name: 'electric-ai-db-dev-sync',
}

const asIs = { getTypeParser: () => (value: string) => value } as unknown as pg.CustomTypesConfig

/** For queries and for the replication session alike. */
export function textConnectionConfig(databaseUrl: string): pg.ClientConfig {
  const options = Object.entries(SETTINGS).map(([name, value]) => `-c ${name}=${value}`)
  return {
    connectionString: databaseUrl,
    options: options.join(' '),
    types: asIs,
    keepAlive: true,
    connectionTimeoutMillis: 10_000,
  }
}

export type Text = string | null
export type Query = (text: string, values?: unknown[]) => Promise<Text[][]>

export interface TextPool {
  query: Query
  /** One connection, in one transaction; rolled back when `run` throws. */
  transaction<T>(begin: string, run: (query: Query) => Promise<T>): Promise<T>
  end(): Promise<void>
}

export function createTextPool(peers: SyncPeers, databaseUrl: string, max: number): TextPool {
  const pool = new peers.pg.Pool({ ...textConnectionConfig(databaseUrl), max })
  // A lost idle connection is replaced by the next query; without a listener it would end the process.
  pool.on('error', () => {})
  const transaction = async <T>(begin: string, run: (query: Query) => Promise<T>): Promise<T> => {
    const client = await pool.connect()
    let broken: boolean | Error = false
    client.on('error', ignore)
    try {
      await client.query(begin)
      const result = await run(queryOn(client))
      await client.query('commit')
      return result
    } catch (thrown) {
      broken = await client.query('rollback').then(
        () => false,
        () => true,
      )
      throw thrown
    } finally {
      client.off('error', ignore)
      client.release(broken)
    }
  }
  return { query: queryOn(pool), transaction, end: () => pool.end() }
}

function queryOn(client: pg.Pool | pg.PoolClient): Query {
  return async (text, values) => {
    const result = await client.query<Text[]>({ text, values, rowMode: 'array' })
    return result.rows
  }
}

function ignore(): void {}
