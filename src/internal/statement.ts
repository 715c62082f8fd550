/**
 * SQL of the library: one statement, one verb, one place. A statement is text with `$1` parameters over
 * the contract tables of one schema; it is prepared once per connection under its name.
 *
 * Parameters are strings, numbers, booleans and null only, each cast in the text (`$1::int`). Arrays go
 * as array literals (`textArray`), JSON as text cast to jsonb: both drivers then agree, whatever type
 * parsers their host installed.
 */

/** Quoted, schema-qualified names of the contract tables. */
export interface TableNames {
  readonly schema: string
  readonly sessions: string
  readonly messages: string
  readonly generations: string
  readonly toolCalls: string
  readonly chunks: string
  readonly approvals: string
  readonly checkpoints: string
  readonly workers: string
  /** A function of the schema: `fn('put_down_generation')`. */
  fn(name: string): string
}

export type Param = string | number | boolean | null

/** A named statement; `Params` and `Row` are what `query` takes and gives. */
export interface Statement<Params extends readonly Param[], Row> {
  readonly name: string
  text(tables: TableNames): string
  /** Carries the types only; never set. */
  readonly types?: { params: Params; row: Row }
}

export function statement<Params extends readonly Param[], Row>(
  name: string,
  text: (tables: TableNames) => string,
): Statement<Params, Row> {
  return { name, text }
}

/** A Postgres identifier, quoted. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

export function tableNames(schemaName: string): TableNames {
  const schema = quoteIdentifier(schemaName)
  const table = (name: string) => `${schema}.${name}`
  return {
    schema,
    sessions: table('sessions'),
    messages: table('messages'),
    generations: table('generations'),
    toolCalls: table('tool_calls'),
    chunks: table('chunks'),
    approvals: table('approvals'),
    checkpoints: table('checkpoints'),
    workers: table('workers'),
    fn: table,
  }
}

/** A text[] parameter: an array literal, for `$1::text[]`. */
export function textArray(values: readonly string[]): string {
  const quoted = values.map((value) => `"${value.replace(/[\\"]/g, (char) => `\\${char}`)}"`)
  return `{${quoted.join(',')}}`
}

/** An int[] parameter, for `$1::int[]`. */
export function intArray(values: readonly number[]): string {
  return `{${values.join(',')}}`
}

/**
 * A jsonb parameter: JSON text, for `$1::text::jsonb`. Undefined is null. NUL, which Postgres cannot
 * store, becomes U+FFFD, as lone surrogates do: a model's stray byte must not fail its turn.
 */
export function jsonText(value: unknown): string {
  return JSON.stringify(value ?? null, (_key, inner: unknown) =>
    typeof inner === 'string' ? storableText(inner) : withStorableKeys(inner),
  )
}

function withStorableKeys(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  if (Object.keys(value).every((key) => storableText(key) === key)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [storableText(key), inner as unknown]),
  )
}

/** Text that Postgres can store: NUL and lone surrogates replaced by U+FFFD. */
export function storableText(text: string): string {
  const whole = text.isWellFormed() ? text : text.toWellFormed()
  return whole.includes('\0') ? whole.replaceAll('\0', '\uFFFD') : whole
}
