/** `npm run db:generate`: src/schema.ts → drizzle/, which is never edited by hand. */
import { defineConfig } from 'drizzle-kit'

export default defineConfig({
  dialect: 'postgresql',
  schema: './src/schema.ts',
  out: './drizzle',
})
