/** A text as people read it, and in a form for comparisons in which each character has the same place. */
export type PlainText = {
  /** Without markup, entities and invisible characters; runs of spaces are one plain space, but line breaks stay. */
  readonly shown: string
  /** Lower case without accents; a character at a place here is the one at that place in `shown`. */
  readonly folded: string
  /** Whether the text was longer than what is read. */
  readonly isCut: boolean
}

/** Far more than any deadline takes; it bounds the time of a hostile text. */
const MAX_CHARACTERS = 10_000

const ENTITIES: Readonly<Record<string, string>> = {
  ...{ nbsp: ' ', amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", ordm: 'º', ordf: 'ª', deg: '°' },
  ...{ ndash: '–', mdash: '—', shy: '', ensp: ' ', emsp: ' ', thinsp: ' ', numsp: ' ', sect: '§', bull: ';' },
}
/** Letters of `&uacute;` and its like, by what is behind the letter. */
const ACCENTS: Readonly<Record<string, string>> = {
  ...{ acute: '\u0301', grave: '\u0300', circ: '\u0302', tilde: '\u0303', uml: '\u0308', cedil: '\u0327' },
}
const ENTITY =
  /&(?:amp;)*(?:#(\d{1,6})|#x([0-9a-f]{1,6})|([a-z])(acute|grave|circ|tilde|uml|cedil)|([a-z]{2,6}));/gi
/** Blocks of HTML are clauses of their own. */
const BLOCK = /<\/?(?:br|p|div|li|ul|ol|tr|table|h[1-6])\b[^<>]{0,200}>/gi
const END_OF_CELL = /<\/t[dh]>/gi
const TAG = /<\/?[a-z][^<>]{0,200}>/gi
const LINE_BREAK = /\r\n?|[\n\v\f\u0085\u2028\u2029]/g
/** Format characters, variation selectors and controls: nobody sees them. */
const INVISIBLE = /(?![\n\t])[\p{Cf}\p{Mn}\p{Cc}]/gu
const SPACES = /[\p{Zs}\t\u2800\u3164]+/gu
const BLANK_LINES = / ?\n[ \n]*/g
/** UTF-8 that was read as Latin-1 or Windows-1252: `Ãº` for `ú`, `Ã‡` for `Ç`. */
const MISREAD = /([\u00c2\u00c3])([\u0080-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ])/g
/** Alone, a soft hyphen behind a letter can be one: `SESSÃ\u00adO`. */
const SURELY_MISREAD = /[\u00c2\u00c3][\u0080-\u00ac\u00ae-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]/
/** Windows-1252 from 0x80, with a space where it has nothing. */
const WINDOWS_1252 = '€ ‚ƒ„…†‡ˆ‰Š‹Œ Ž  ‘’“”•–—˜™š›œ žŸ'
/** Letters and slashes that look like those of keyboards: real notices mix them. In keys of JSON, underscores are spaces. */
const [LOOKALIKES, LATIN] = ['аеіорсухѕԁοαι⁄∕_', 'aeiopcyxsdoai// ']
const DASHES = /[‐‑‒–—―−]/

/** Reads a foreign text of any length in linear time. */
export function plainText(text: string): PlainText {
  const composed = withoutMarkup(text.slice(0, MAX_CHARACTERS).toWellFormed()).normalize('NFC')
  const written = SURELY_MISREAD.test(composed) ? composed.replace(MISREAD, decodeMisread) : composed
  const lines = written.replace(LINE_BREAK, '\n').replace(INVISIBLE, '')
  const shown = withLabelledCells(lines).replace(SPACES, ' ').replace(BLANK_LINES, '\n')
  return { shown, folded: foldInPlace(shown), isCut: text.length > MAX_CHARACTERS }
}

function decodeMisread(_: string, first: string, second: string): string {
  const place = WINDOWS_1252.indexOf(second)
  const byte = place < 0 ? second.charCodeAt(0) : 0x80 + place
  return String.fromCharCode(((first.charCodeAt(0) & 0x1f) << 6) | (byte & 0x3f))
}

function withoutMarkup(text: string): string {
  if (!text.includes('<') && !text.includes('&')) return text
  return text.replace(ENTITY, decodeEntity).replace(BLOCK, '\n').replace(END_OF_CELL, '|').replace(TAG, ' ')
}

function decodeEntity(entity: string, ...parts: readonly (string | undefined)[]): string {
  const [decimal, hexadecimal, letter, accent, name] = parts
  if (decimal !== undefined || hexadecimal !== undefined) {
    const code = decimal === undefined ? Number.parseInt(hexadecimal as string, 16) : Number(decimal)
    return code === 0 || code > 0x10ffff ? ' ' : String.fromCodePoint(code)
  }
  if (letter !== undefined) return `${letter}${ACCENTS[(accent as string).toLowerCase()]}`
  return ENTITIES[(name as string).toLowerCase()] ?? entity
}

/** Rewrites a row of labels above a row of days as one line for each day. */
function withLabelledCells(text: string): string {
  const rows = text.split('\n').filter(row => !/^[\s|:-]*$/.test(row))
  if (rows.length < 2) return text
  const lines: string[] = []
  for (let at = 0; at < rows.length; at += 1) {
    const [labels, values] = [cellsOf(rows[at] as string), cellsOf(rows[at + 1] ?? '')]
    const isTable = labels.length > 1 && labels.length === values.length
    if (isTable && !labels.some(hasDigit) && values.every(hasDigit)) {
      lines.push(...labels.map((label, cell) => `${label}: ${values[cell]}`))
      at += 1
    } else lines.push(rows[at] as string)
  }
  return lines.join('\n')
}

function cellsOf(row: string): string[] {
  return row.split(/[|;\t]/).flatMap(cell => cell.trim() || [])
}

function hasDigit(text: string): boolean {
  return /\p{Nd}/u.test(text)
}

/** Folds each code unit into one, so that places stay. */
function foldInPlace(text: string): string {
  let folded = ''
  for (let at = 0; at < text.length; at += 1) folded += foldUnit(text[at] as string)
  return folded
}

const FOLDED = new Map<string, string>()

function foldUnit(unit: string): string {
  let folded = FOLDED.get(unit)
  if (folded === undefined) {
    folded = DASHES.test(unit) ? '-' : (unit.normalize('NFKD')[0] ?? unit).toLowerCase()
    folded = LATIN[LOOKALIKES.indexOf(folded)] ?? folded
    folded = folded.length === 1 ? folded : unit
    FOLDED.set(unit, folded)
  }
  return folded
}
