/** Strings, quoted names, comments and dollar-quoted texts; the last of each kind may have no end. */
const OPAQUE =
  /'(?:[^']|'')*(?:'|$)|"(?:[^"]|"")*(?:"|$)|--[^\n]*(?:\n|$)|\/\*[\s\S]*?(?:\*\/|$)|\$(\w*)\$[\s\S]*?(?:\$\1\$|$)/g

/** SQL with a space for each comment, and a question mark for each string; and for each quoted name, unless they are kept. */
export function withoutTexts(sql: string, { keepNames = false } = {}): string {
  return sql.replaceAll(OPAQUE, text => {
    if (/^(?:--|\/\*)/.test(text)) return ' '
    return keepNames && text.startsWith('"') ? text : '?'
  })
}
