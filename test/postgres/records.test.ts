/** The records clients see are the tables' rows: each name a column, each type that column's, null where it may be. */
import { getTableConfig, PgDialect, type PgTable } from 'drizzle-orm/pg-core'
import { describe, expect, it } from 'vitest'
import type { z } from 'zod'
import { records, type ShapeName } from '../../src/contract/records.js'
import * as schema from '../../src/schema.js'

const tables: Readonly<Record<ShapeName, PgTable>> = {
  sessions: schema.sessions,
  messages: schema.messages,
  generations: schema.generations,
  'tool-calls': schema.toolCalls,
  chunks: schema.chunks,
  approvals: schema.approvals,
}

/** What a column of this SQL type is in a record; jsonb may be any shape. */
const recordTypes: Readonly<Record<string, readonly string[]>> = {
  text: ['string', 'enum'],
  integer: ['int'],
  smallint: ['int'],
  bigint: ['number', 'int'],
  boolean: ['boolean'],
  'timestamp with time zone': ['date'],
  jsonb: ['record', 'array', 'unknown', 'object'],
}

/** Columns that stay with the server: nobody's business in a browser, or too big for every change. */
const kept: Readonly<Record<ShapeName, readonly string[]>> = {
  sessions: ['concurrencyKey', 'priority'],
  messages: [],
  generations: [
    ...['priority', 'runAt', 'concurrencyKey', 'concurrencySlot', 'attemptsWithoutProgress'],
    ...['maxAttempts', 'providerResponseId'],
  ],
  'tool-calls': ['priority', 'runAt', 'timeoutMs', 'workerOnly', 'maxAttempts'],
  chunks: [],
  approvals: [],
}

type Field = z.core.$ZodType

function typeOf(field: Field): { type: string; nullable: boolean } {
  const { def } = field._zod
  if (def.type === 'nullable')
    return { ...typeOf((def as z.core.$ZodNullableDef).innerType), nullable: true }
  const isInt = def.type === 'number' && (def as { checks?: unknown[] }).checks?.length
  // `unknown` takes null as it is.
  return { type: isInt ? 'int' : def.type, nullable: def.type === 'unknown' }
}

/** The values a CHECK of the table allows the column, if it lists them. */
function checkedWords(table: PgTable, column: string): string[] | undefined {
  const { checks, name } = getTableConfig(table)
  const check = checks.find((one) => one.name === `${name}_${column}_check`)
  const text = check && new PgDialect().sqlToQuery(check.value).sql
  return text?.includes(' in (')
    ? [...text.matchAll(/'([^']+)'/g)].map((word) => word[1]!)
    : undefined
}

describe.each(Object.entries(tables) as [ShapeName, PgTable][])('%s', (name, table) => {
  const shape = records[name].shape as unknown as Record<string, Field>
  const columns = Object.fromEntries(
    Object.entries(table as unknown as Record<string, unknown>).filter(
      ([key]) => key !== '_' && key !== 'enableRLS',
    ),
  ) as Record<string, { name: string; notNull: boolean; getSQLType(): string }>

  it('names columns, and leaves out only what is kept on purpose', () => {
    expect([...Object.keys(shape), ...kept[name]].toSorted()).toEqual(
      Object.keys(columns).toSorted(),
    )
  })

  it('has camel-cased names of the columns, so that one mapper does for all', () => {
    const snake = (key: string) => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
    for (const key of Object.keys(shape)) expect(columns[key]!.name).toBe(snake(key))
  })

  it.each(Object.keys(shape))('%s has its column’s type and nullability', (key) => {
    const column = columns[key]!
    const { type, nullable } = typeOf(shape[key]!)
    expect(recordTypes[column.getSQLType()]).toContain(type)
    if (type !== 'unknown') expect(nullable).toBe(!column.notNull)
  })

  it('lists the words the database checks', () => {
    for (const [key, field] of Object.entries(shape)) {
      if (typeOf(field).type !== 'enum') continue
      const inner =
        field._zod.def.type === 'nullable'
          ? (field._zod.def as z.core.$ZodNullableDef).innerType
          : field
      const words = Object.values((inner._zod.def as z.core.$ZodEnumDef).entries)
      expect(words.toSorted()).toEqual(checkedWords(table, columns[key]!.name)?.toSorted())
    }
  })
})
