/** Names as SQL writes them: quoted keeps its case, unquoted is folded, as Postgres does. */

export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

const NAME = /\s*(?:"((?:[^"]|"")+)"|([\p{L}_][\p{L}\p{N}_$]*))\s*/uy

/** `"A b".c` split at `separator` into `['A b', 'c']`; undefined when it is no list of names. */
export function readNames(text: string, separator: '.' | ','): string[] | undefined {
  const names: string[] = []
  let at = 0
  for (;;) {
    NAME.lastIndex = at
    const match = NAME.exec(text)
    if (match === null) return undefined
    names.push(match[1]?.replaceAll('""', '"') ?? match[2]!.toLowerCase())
    at = NAME.lastIndex
    if (at === text.length) return names
    if (text[at] !== separator) return undefined
    at += 1
  }
}
