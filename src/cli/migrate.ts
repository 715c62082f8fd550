/** `electric-ai-db migrate`: idempotent, safe to run from several deploys at once. */
import { parseArgs } from 'node:util'
import { AiDbError } from '../errors.js'
import { migrate } from '../migrate.js'

const HELP = `Usage: electric-ai-db migrate [--url postgres://...] [--schema ai_db] [--host-tables]

  --url          the database; DATABASE_URL when absent
  --schema       the Postgres schema of the tables (default ai_db)
  --host-tables  the tables were made by this app's own drizzle-kit: apply guards, triggers and publication only`

export async function migrateCommand(argv: string[]): Promise<number> {
  const { values } = parseArgs({
    args: argv,
    options: {
      url: { type: 'string' },
      schema: { type: 'string' },
      'host-tables': { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  })
  if (values.help) {
    console.log(HELP)
    return 0
  }
  const url = values.url ?? process.env.DATABASE_URL
  if (url === undefined || url === '') {
    throw new AiDbError(
      'INVALID_INPUT',
      'There is no database URL. Pass --url or set DATABASE_URL.',
      { field: 'url' },
    )
  }
  const { drizzle } = await import('drizzle-orm/postgres-js')
  const db = drizzle({ connection: { url, max: 1, onnotice: () => undefined } })
  try {
    const { applied } = await migrate(db, {
      ...(values.schema !== undefined && { schema: values.schema }),
      ...(values['host-tables'] && { tables: 'host' }),
    })
    console.log(
      applied.length === 0 ? 'Up to date.' : applied.map((name) => `applied ${name}`).join('\n'),
    )
    return 0
  } finally {
    await db.$client.end({ timeout: 5 })
  }
}
