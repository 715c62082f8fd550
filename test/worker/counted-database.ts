/** A database that writes down each statement, to count what a turn costs. */
import type { PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import type postgres from 'postgres'
import { claimGenerationsStatement } from '../../src/claims/claim-generations.js'
import { expireStatement, recoverStatement } from '../../src/claims/recover.js'
import {
  barrierStatement,
  listWorkersStatement,
  nextRunStatement,
  renewLeaseStatement,
  setSleepingStatement,
} from '../../src/claims/workers.js'
import { tableNames } from '../../src/internal/statement.js'

const tables = tableNames('ai_db')
/** What a worker sends while it has nothing to do, or beside what it does: by time, and not by turns. */
const idle = [
  barrierStatement,
  expireStatement,
  listWorkersStatement,
  nextRunStatement,
  recoverStatement,
  renewLeaseStatement,
  setSleepingStatement,
].map((statement) => statement.text(tables))
const claim = claimGenerationsStatement.text(tables)

interface Sent {
  text: string
  rows: number | undefined
}

export function countedDatabase(db: PostgresJsDatabase & { $client: postgres.Sql }) {
  const sent: Sent[] = []
  const client = new Proxy(db.$client, {
    get(target, name) {
      if (name !== 'unsafe') return Reflect.get(target, name) as unknown
      return (...query: Parameters<typeof target.unsafe>) => {
        const entry: Sent = { text: query[0], rows: undefined }
        sent.push(entry)
        const pending = target.unsafe(...query)
        pending.then(
          (rows) => (entry.rows = rows.length),
          () => undefined,
        )
        return pending
      }
    },
  })
  return {
    db: { execute: db.execute.bind(db), $client: client },
    /** Statements sent for turns so far; a claim that got nothing is not one. */
    get ofTurns(): string[] {
      return sent
        .filter(({ text, rows }) => !idle.includes(text) && !(text === claim && !rows))
        .filter(({ text }) => !/insert into "ai_db"\.workers|pg_notify/.test(text))
        .map(({ text }) => text.replaceAll(/\s+/g, ' ').slice(0, 100))
    },
  }
}
