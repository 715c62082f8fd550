/**
 * The two packages this server is made of besides Node: `pg`, whose parameters and results can stay
 * the text Postgres writes, and `pg-logical-replication`, a maintained decoder of pgoutput. Both are
 * optional peers, loaded on first use.
 */
import type pg from 'pg'
import type * as replication from 'pg-logical-replication'
import { devStackError, systemCode } from '../dev-stack-error.js'

export interface SyncPeers {
  pg: typeof pg
  replication: typeof replication
}

export async function loadSyncPeers(): Promise<SyncPeers> {
  try {
    const [driver, decoder] = await Promise.all([import('pg'), import('pg-logical-replication')])
    return { pg: driver.default, replication: decoder }
  } catch (thrown) {
    if (systemCode(thrown) !== 'ERR_MODULE_NOT_FOUND') throw thrown
    throw devStackError(
      'The development sync server needs the packages pg and pg-logical-replication, and one of ' +
        'them is not installed. Run: npm i -D pg pg-logical-replication',
      thrown,
    )
  }
}
