/**
 * What a client may write into a subset's `where` and `order_by`: the shape's own columns, parameters, literals,
 * and the operators that TanStack DB compiles queries to. Everything else is refused before Electric sees it.
 *
 * Why, when Electric parses these itself: a filter may only narrow the shape, never tell anything about a row
 * outside it. A subquery, a function or a column that is not synced would be an oracle, and a stray
 * parenthesis or comment would reach out of the clause wherever it is put between two others.
 *
 * What it is not: a parser. A filter that passes may still be nonsense; Electric says so.
 */
import { AiDbError } from '../errors.js'

/** Words that may stand outside of quotes, in lower case. The functions among them read nothing but their arguments. */
const words = new Set([
  ...['and', 'or', 'not', 'is', 'null', 'true', 'false', 'in', 'any', 'like', 'ilike', 'between'],
  ...['asc', 'desc', 'nulls', 'first', 'last'],
  ...['upper', 'lower', 'length', 'concat', 'coalesce'],
])

const tokens =
  /\s+|"(?<quoted>(?:[^"]|"")*)"|'(?:[^'\\]|'')*'|\$\d{1,5}|\d+(?:\.\d+)?|(?<word>[a-z_][a-z0-9_]*)|(?<paren>[()])|<=|>=|<>|!=|[=<>+,-]/giy

/** @throws AiDbError INVALID_INPUT unless `sql` stays within the shape. */
export function requireNarrowing(field: string, sql: string, columns: readonly string[]): void {
  let depth = 0
  let end = 0
  let before = ''
  for (const match of sql.matchAll(tokens)) {
    end = match.index + match[0].length
    const { quoted, word, paren } = match.groups!
    if (quoted !== undefined) requireColumn(field, quoted.replaceAll('""', '"'), columns)
    else if (word !== undefined && !words.has(word.toLowerCase())) {
      requireColumn(field, word, columns)
    }
    if (paren === '(') depth += 1
    if (paren === ')') depth -= 1
    if (depth < 0 || (before === '-' && match[0] === '-')) throw refused(field)
    before = match[0]
  }
  if (end !== sql.length || depth !== 0) throw refused(field)
}

function requireColumn(field: string, name: string, columns: readonly string[]): void {
  if (!columns.includes(name)) throw refused(field)
}

const refused = (field: string) =>
  new AiDbError(
    'INVALID_INPUT',
    `${field} may hold the shape's columns, parameters ($1), literals, comparisons, and / or / not, ` +
      'like, = any and the functions upper, lower, length, concat, coalesce. Ask for rows with those.',
    { field },
  )
