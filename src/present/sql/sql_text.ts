/** Characters that DuckDB takes for a space, besides ASCII's: before it reads tokens, and not always in the same way. */
const UNUSUAL_SPACES = String.raw`\xa0\u2000-\u200d\u202f\u205f\u2060\u3000\ufeff`
const LETTER = String.raw`[[A-Za-z_\x80-\u{10ffff}]--[${UNUSUAL_SPACES}]]`
/** Between two parts of one text: a line feed, and comments. */
const GAP = String.raw`[ \t\f\v]*(?:--[^\n\r]*)?[\n\r](?:[ \t\n\r\f\v]|--[^\n\r]*[\n\r])*`

/**
 * DuckDB's tokens that may hide what looks like another one; the last of each kind may have no end. Exact, because a query that
 * seems to have a call in a text must not call it.
 */
const TOKENS = new RegExp(
  [
    String.raw`(?<comment>--[^\n\r]*|/\*)`,
    String.raw`(?<text>[eE]'(?:[^'\\]|\\[\s\S]|''|'${GAP}')*(?:'|\\?$)|'(?:[^']|'')*(?:'|$)`,
    String.raw`\$(?<tag>(?:${LETTER}(?:${LETTER}|\d)*)?)\$[\s\S]*?(?:\$\k<tag>\$|$))`,
    '(?<quoted>"(?:[^"]|"")*(?:"|$))',
    // A name may have a dollar sign in it, and end with what begins a text.
    String.raw`(?<word>${LETTER}(?:${LETTER}|[\d$])*|\d+(?:_\d+)*)`,
  ].join('|'),
  'gv',
)

type Kind = 'comment' | 'text' | 'quoted' | 'code'

/**
 * Returns SQL with a space for each comment, and a question mark for each string; and for each quoted name, unless they
 * are kept.
 */
export function withoutTexts(sql: string, { keepNames = false } = {}): string {
  return mapParts(sql, (part, kind) => {
    if (kind === 'comment') return ' '
    return kind === 'text' || (kind === 'quoted' && !keepNames) ? '?' : part
  })
}

/** Replaces unusual spaces by plain ones, except in comments, texts and quoted names. */
export function withPlainSpaces(sql: string): string {
  const unusual = new RegExp(`[${UNUSUAL_SPACES}]`, 'gv')
  return mapParts(sql, (part, kind) => (kind === 'code' ? part.replace(unusual, ' ') : part))
}

function mapParts(sql: string, map: (part: string, kind: Kind) => string): string {
  const parts: string[] = []
  let at = 0
  TOKENS.lastIndex = 0
  for (let found = TOKENS.exec(sql); found; found = TOKENS.exec(sql)) {
    const { comment, text, quoted } = found.groups as Record<string, string | undefined>
    const end = comment === '/*' ? endOfComment(sql, TOKENS.lastIndex) : TOKENS.lastIndex
    TOKENS.lastIndex = end
    const kind = comment !== undefined ? 'comment' : text !== undefined ? 'text' : quoted ? 'quoted' : 'code'
    parts.push(map(sql.slice(at, found.index), 'code'), map(sql.slice(found.index, end), kind))
    at = end
  }
  return parts.join('') + map(sql.slice(at), 'code')
}

/** Comments may be nested. @param from behind the beginning of one. */
function endOfComment(sql: string, from: number): number {
  let depth = 1
  for (const { 0: mark, index } of sql.slice(from).matchAll(/\/\*|\*\//g)) {
    depth += mark === '/*' ? 1 : -1
    if (depth === 0) return from + index + mark.length
  }
  return sql.length
}
