/**
 * Makes the stack's database on first use. Uses the `postgres` driver, which whoever uses the
 * server entry has already.
 */
import postgres from 'postgres'

export async function ensureDatabase(serverUrl: string, database: string): Promise<string> {
  const sql = postgres(`${serverUrl}/postgres`, { max: 1, onnotice: () => {} })
  try {
    const [found] = await sql`select 1 from pg_database where datname = ${database}`
    if (found === undefined) await sql`create database ${sql(database)}`
  } finally {
    await sql.end()
  }
  return `${serverUrl}/${database}`
}
