/** The columns and CHECKs that tables share. Times are the database's clock, always; constraints are named. */
import { sql, type SQL } from 'drizzle-orm'
import { check, jsonb, text, timestamp, type AnyPgColumn } from 'drizzle-orm/pg-core'

export const instant = (name: string) => timestamp(name, { withTimezone: true, mode: 'string' })
export const createdAt = () => instant('created_at').notNull().defaultNow()
export const updatedAt = () => instant('updated_at').notNull().defaultNow()
export const rowId = () =>
  text('id')
    .notNull()
    .default(sql`gen_random_uuid()::text`)
export const metadata = () =>
  jsonb('metadata')
    .$type<Record<string, unknown>>()
    .notNull()
    .default(sql`'{}'::jsonb`)

/** `column in ('a', 'b')` as a named CHECK; null passes, as CHECKs do. */
export const oneOf = (name: string, column: AnyPgColumn, words: readonly string[]) =>
  check(name, sql`${column} in (${sql.raw(words.map((word) => `'${word}'`).join(', '))})`)

export const idShape = (name: string, column: AnyPgColumn) =>
  check(name, sql`char_length(${column}) between 1 and 200`)

export const settledAgrees = (
  name: string,
  status: AnyPgColumn,
  completedAt: AnyPgColumn,
): ReturnType<typeof check> => check(name, settledIff(status, completedAt))

const settledIff = (status: AnyPgColumn, completedAt: AnyPgColumn): SQL =>
  sql`(${status} in ('completed', 'failed', 'cancelled')) = (${completedAt} is not null)`
