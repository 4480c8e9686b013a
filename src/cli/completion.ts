import { withoutTexts } from '#src/present/sql/sql_text.ts'

/** The completions that Tab offers in the prompt. */

/** The relations of a catalog with their columns, in their order. */
export type Catalog = ReadonlyMap<string, readonly string[]>

/** Commands of the prompt; everything else is SQL. */
const DOT_COMMANDS = ['.tables', '.columns', '.help', '.quit'] as const

const KEYWORDS = [
  ...[
    'SELECT',
    'FROM',
    'WHERE',
    'GROUP BY',
    'GROUP BY ALL',
    'ORDER BY',
    'HAVING',
    'LIMIT',
    'JOIN',
    'LEFT JOIN',
  ],
  ...['USING', 'ON', 'AS', 'AND', 'OR', 'NOT', 'IN', 'IS NULL', 'IS NOT NULL', 'BETWEEN', 'LIKE', 'ILIKE'],
  ...[
    'CASE',
    'WHEN',
    'THEN',
    'ELSE',
    'END',
    'DISTINCT',
    'COUNT',
    'SUM',
    'AVG',
    'MIN',
    'MAX',
    'MEDIAN',
    'FILTER',
  ],
  ...['DESC', 'DESCRIBE', 'SUMMARIZE', 'WITH', 'UNION ALL', 'DATE', 'INTERVAL', 'TRUE', 'FALSE', 'NULL'],
]
/** Behind these, only a relation makes sense. */
const BEFORE_RELATION = /\b(?:from|join|describe|summarize)\s+$/i
const IN_USE =
  /\b(?:from|join)\s+"?(\w+)"?(?:\s+(?:as\s+)?(?!(?:join|left|where|group|order|using|on|limit)\b)"?(\w+)"?)?/gi

/**
 * Returns the words that can stand where `line` ends, and the part of it that they replace.
 * @param around what of the statement stands before and behind it.
 */
export function complete(
  line: string,
  { before, behind }: { readonly before: string; readonly behind: string },
  catalog: Catalog,
): [words: string[], part: string] {
  if (before === '' && /^\.\w*$/.test(line)) return [startingWith(line, DOT_COMMANDS), line]
  const [part = ''] = /(?<![\w.])[\w.]*$/.exec(line) ?? []
  const head = line.slice(0, line.length - part.length)
  const relations = [...catalog.keys()]
  if (/^\.columns\s+$/.test(head) || BEFORE_RELATION.test(`${before} ${head}`))
    return [startingWith(part, relations), part]
  const used = relationsIn(`${before} ${line}${behind}`, catalog)
  const [, owner, name] = /^(\w+)\.(\w*)$/.exec(part) ?? []
  if (owner !== undefined) {
    const columns = catalog.get(used.get(owner.toLowerCase()) ?? owner.toLowerCase()) ?? []
    return [startingWith(name ?? '', columns).map(column => `${owner}.${column}`), part]
  }
  // As FROM comes after SELECT, what begins with a part is looked for everywhere.
  const named = used.size > 0 ? new Set(used.values()) : part === '' ? [] : relations
  const columns = [...named].flatMap(relation => catalog.get(relation) ?? [])
  return [startingWith(part, [...new Set(columns), ...relations, ...cased(part)]), part]
}

/** Relations that the statement names, by their names and aliases. */
function relationsIn(sql: string, catalog: Catalog): Map<string, string> {
  const used = new Map<string, string>()
  for (const [, name = '', alias] of sql.matchAll(IN_USE)) {
    const relation = name.toLowerCase()
    if (!catalog.has(relation)) continue
    used.set(relation, relation)
    if (alias) used.set(alias.toLowerCase(), relation)
  }
  return used
}

function startingWith(part: string, words: readonly string[]): string[] {
  return words.filter(word => word.toLowerCase().startsWith(part.toLowerCase()))
}

/** Returns the keywords in the user's case: in capitals, unless the part is in lower case. */
function cased(part: string): readonly string[] {
  return part !== '' && part === part.toLowerCase() ? KEYWORDS.map(word => word.toLowerCase()) : KEYWORDS
}

/** Returns whether SQL ends with a semicolon that is part of no string, name or comment. */
export function isComplete(sql: string): boolean {
  return withoutTexts(sql).trimEnd().endsWith(';')
}
