/** What a cell of Excel holds, in UTF-16 units: a longer text makes it repair the file. */
export const MAX_CELL_TEXT = 32_767

/** What XML 1.0 does not allow, halves of surrogates among them: a workbook with one of these cannot be opened. */
const NOT_IN_XML = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu
/** What a workbook reads as the character with this code. */
const ESCAPED = /_(?=x[0-9A-Fa-f]{4}_)/g

/** A text that is not cut within a character, with an ellipsis if it is too long for a cell. */
export function cutText(text: string): string {
  if (text.length <= MAX_CELL_TEXT) return text
  return `${text.slice(0, MAX_CELL_TEXT - 1).replace(/[\uD800-\uDBFF]$/, '')}…`
}

export function hasForbidden(text: string): boolean {
  return text.search(NOT_IN_XML) !== -1
}

export function withoutForbidden(text: string): string {
  return text.replaceAll(NOT_IN_XML, '')
}

/** So that `_x000D_` in a text is not a line break. */
export function escapeCodes(text: string): string {
  return text.replaceAll(ESCAPED, '_x005F_')
}
