/** The app's own tables, and those of electric-ai-db: one schema file, one set of migrations. */
import { pgTable, serial, text } from 'drizzle-orm/pg-core'
import { sessions } from 'electric-ai-db/schema'

export * from 'electric-ai-db/schema'

export const customers = pgTable('customers', {
  id: serial('id').primaryKey(),
  name: text('name').notNull(),
  /** The conversation with this customer. */
  sessionId: text('session_id')
    .notNull()
    .references(() => sessions.id),
})
