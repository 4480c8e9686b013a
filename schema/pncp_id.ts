/**
 * The one grammar of identifiers at the national procurement portal (PNCP): `<cnpj>-<year>-<sequence>`, as the API names it, and
 * the portal's own `<cnpj>-1-<sequence>/<year>`. Since July 2026, a CNPJ may have letters in place of its first twelve digits;
 * it may be written in lower case, and with its punctuation, `12.345.678/0001-95`. The patterns mean the same in JavaScript and
 * in DuckDB (RE2): `src/core/warehouse/sql.ts` reads columns by them.
 */

/** Characters that people do not see in an identifier, and other dashes than the hyphen. */
export const UNSEEN = '[\\p{Z}\\p{Cc}\\p{Cf}]+'
export const DASH = '\\p{Pd}'

/**
 * The parts between the separators: the CNPJ, then year and sequence, or sequence and year. A part that cannot be read does not
 * hide the others.
 */
export const PARTS =
  '^([^-/]*(?:/[^-/]*(?:-[0-9]{2})?)?)(?:-(?:([^-/]*)-([^-/]*)|[0-9]-([^-/]*)/([^-/]*)|.*))?$'

/** The groups of `PARTS`, by what they hold; at most one of each is there. */
export const PLACES = { cnpj: [1], year: [2, 5], sequence: [3, 4] } as const

/** A CNPJ without its punctuation. */
export const PUNCTUATION = '[./-]'
export const CNPJ = '^[0-9A-Za-z]{12}[0-9]{2}$'
export const YEAR = '^[0-9]{4}$'
export const SEQUENCE = '^[0-9]+$'

/** Longer texts are no identifiers: the longest has 36 characters that can be seen. */
export const MAX_CHARACTERS = 200
const MAX_SEQUENCE = 2n ** 63n - 1n

type PncpId = {
  /** In capitals, without punctuation. */
  readonly cnpj: string | null
  readonly year: number | null
  /** Only beside one of the others: alone, it identifies nothing. */
  readonly sequence: bigint | null
}

const REGEXPS = {
  unseen: new RegExp(UNSEEN, 'gu'),
  dash: new RegExp(DASH, 'gu'),
  parts: new RegExp(PARTS),
  punctuation: new RegExp(PUNCTUATION, 'g'),
  cnpj: new RegExp(CNPJ),
  year: new RegExp(YEAR),
  sequence: new RegExp(SEQUENCE),
}

/** Returns the parts of an identifier; null for what cannot be read. */
export function readPncpId(text: string): PncpId {
  const seen = isTooLong(text) ? '' : text.replace(REGEXPS.unseen, '').replace(REGEXPS.dash, '-')
  const parts = REGEXPS.parts.exec(seen) ?? []
  const at = (places: readonly number[]) => places.map(place => parts[place] ?? '').join('')
  const cnpj = at(PLACES.cnpj).replace(REGEXPS.punctuation, '')
  const [year, sequence] = [at(PLACES.year), at(PLACES.sequence)]
  const read = {
    cnpj: REGEXPS.cnpj.test(cnpj) ? cnpj.toUpperCase() : null,
    year: REGEXPS.year.test(year) ? Number(year) : null,
  }
  const isRead = (read.cnpj !== null || read.year !== null) && REGEXPS.sequence.test(sequence)
  return { ...read, sequence: isRead && BigInt(sequence) <= MAX_SEQUENCE ? BigInt(sequence) : null }
}

/** Returns whether a text has too many characters. Not code units, because DuckDB counts characters, too. */
function isTooLong(text: string): boolean {
  return text.length > MAX_CHARACTERS && [...text.slice(0, 2 * MAX_CHARACTERS + 1)].length > MAX_CHARACTERS
}
