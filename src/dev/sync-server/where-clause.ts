/**
 * The guard before Postgres sees a clause that came over HTTP. It is cut into tokens, each token must
 * be on a list, and what is sent is written anew from the tokens: columns of this table, literals,
 * `$n`, a few functions, operators and casts, in balanced parentheses. There is no word on the lists
 * that begins a query, names another table or calls anything else, so there is nothing to inject.
 *
 * What this is not: a parser. Whether the tokens make sense, Postgres says.
 */
import { quoteName } from './identifiers.js'
import { invalidRequest } from './request-error.js'
import type { TableFacts } from './table-facts.js'

type Token = { column: string } | { param: number } | { sql: string }

export interface Clause {
  tokens: readonly Token[]
  /** The columns it reads. */
  columns: readonly string[]
  /** The highest `$n`. */
  paramCount: number
}

const LONGEST = 100_000

const PIECE =
  /\s*(?:"((?:[^"]|"")+)"|([\p{L}_][\p{L}\p{N}_$]*)|\$([1-9]\d{0,3})|('(?:[^']|'')*')|(\d+(?:\.\d+)?(?:e[+-]?\d+)?)|(--|\/\*)|(::|<>|!=|<=|>=|\|\||!~~\*|!~~|~~\*|~~|@>|<@|&&|[=<>+\-*/%(),[\]]))/iuy

const words = (text: string) => new Set(text.split(' '))
const KEYWORDS = words(
  'and or not is null true false unknown in like ilike between symmetric any all array distinct from',
)
const FUNCTIONS = words('lower upper length concat coalesce')
const TYPES = words(
  'text varchar char int int2 int4 int8 integer smallint bigint float4 float8 real numeric decimal bool ' +
    'boolean uuid date time timetz timestamp timestamptz interval json jsonb bytea',
)
const ORDER_WORDS = words('asc desc nulls first last')

export function parseWhere(text: string, table: TableFacts, field: string): Clause {
  return parse(text, table, field, (word, next, previous) => {
    if (previous === '::') return TYPES.has(word)
    return next === '(' ? KEYWORDS.has(word) || FUNCTIONS.has(word) : KEYWORDS.has(word)
  })
}

export function parseOrderBy(text: string, table: TableFacts, field: string): Clause {
  return parse(text, table, field, (word, next) => {
    return next === '(' ? FUNCTIONS.has(word) : ORDER_WORDS.has(word)
  })
}

/** The clause as SQL, its `$n` and columns written as the caller needs them. */
export function writeClause(
  clause: Clause,
  param: (n: number) => string = (n) => `$${n}`,
  column: (name: string) => string = quoteName,
): string {
  const written = clause.tokens.map((token) => {
    if ('column' in token) return column(token.column)
    return 'param' in token ? param(token.param) : token.sql
  })
  return written.join(' ')
}

type Allows = (word: string, next: string | undefined, previous: string | undefined) => boolean

function parse(text: string, table: TableFacts, field: string, allows: Allows): Clause {
  const refuse = (problem: string) => invalidRequest(field, problem)
  if (text.length > LONGEST) throw refuse(`is longer than ${LONGEST} characters`)
  const pieces = cut(text, refuse)
  const tokens: Token[] = []
  const columns = new Set<string>()
  let depth = 0
  let paramCount = 0
  const known = new Set(table.columns.map((column) => column.name))
  pieces.forEach(({ quoted, word, param, plain }, at) => {
    const next = pieces[at + 1]?.plain
    if (plain !== undefined) {
      depth += plain === '(' || plain === '[' ? 1 : plain === ')' || plain === ']' ? -1 : 0
      if (depth < 0) throw refuse('has unbalanced parentheses')
      tokens.push({ sql: plain })
    } else if (param !== undefined) {
      paramCount = Math.max(paramCount, param)
      tokens.push({ param })
    } else if (word !== undefined && allows(word, next, pieces[at - 1]?.plain)) {
      tokens.push({ sql: word })
    } else {
      const name = quoted ?? word!
      // "f"(x) would call a function, whatever the columns are called.
      if (!known.has(name) || next === '(') throw refuse(`unknown reference ${name}`)
      columns.add(name)
      tokens.push({ column: name })
    }
  })
  if (depth !== 0) throw refuse('has unbalanced parentheses')
  if (tokens.length === 0) throw refuse('is empty')
  return { tokens, columns: [...columns], paramCount }
}

interface Piece {
  quoted?: string
  word?: string
  param?: number
  /** A literal, an operator or a parenthesis. */
  plain?: string
}

function cut(text: string, refuse: (problem: string) => Error): Piece[] {
  const pieces: Piece[] = []
  let at = 0
  while (text.slice(at).trim() !== '') {
    PIECE.lastIndex = at
    const match = PIECE.exec(text)
    if (match === null || match[6] !== undefined || text.includes('\0')) {
      throw refuse(`At location ${at}: syntax error`)
    }
    at = PIECE.lastIndex
    const [, quoted, word, param, literal, number, , operator] = match
    if (quoted !== undefined) pieces.push({ quoted: quoted.replaceAll('""', '"') })
    else if (word !== undefined) pieces.push({ word: word.toLowerCase() })
    else if (param !== undefined) pieces.push({ param: Number(param) })
    else pieces.push({ plain: literal ?? number ?? operator })
  }
  return pieces
}
