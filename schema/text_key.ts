/**
 * Spellings of modalities that mean another one's, without case, accents and punctuation: `pregão - eletrônico` is
 * `pregao eletronico` without an entry here. What is no spelling stays apart: a dispensa that is electronic, a pregão that does
 * not say how it is held.
 */
const SPELLINGS: Readonly<Record<string, readonly string[]>> = {
  'pregao eletronico': ['pregao eletronica', 'pregao na forma eletronica', 'pregao forma eletronica'],
  'pregao presencial': ['pregao na forma presencial', 'pregao forma presencial'],
  'concorrencia eletronica': [
    'concorrencia eletronico',
    'concorrencia na forma eletronica',
    'concorrencia forma eletronica',
    'concorrencia publica eletronica',
  ],
  'concorrencia presencial': [
    'concorrencia na forma presencial',
    'concorrencia forma presencial',
    'concorrencia publica presencial',
  ],
  concorrencia: ['concorrencia publica'],
  dispensa: ['dispensa de licitacao', 'dispensa licitacao'],
  'dispensa eletronica': [
    'dispensa de licitacao eletronica',
    'dispensa eletronica de licitacao',
    'dispensa na forma eletronica',
  ],
  inexigibilidade: ['inexigibilidade de licitacao', 'inexigibilidade licitacao'],
  'leilao eletronico': ['leilao na forma eletronica', 'leilao forma eletronica'],
  'leilao presencial': ['leilao na forma presencial', 'leilao forma presencial'],
  'manifestacao de interesse': ['procedimento de manifestacao de interesse', 'pmi'],
  'pre qualificacao': ['prequalificacao'],
  'inaplicabilidade da licitacao': ['inaplicabilidade de licitacao', 'inaplicabilidade'],
  'regime diferenciado de contratacao': ['regime diferenciado de contratacoes', 'rdc'],
}

/** The usual key of each spelling that has another. */
const MODALITY_SPELLINGS: ReadonlyMap<string, string> = new Map(
  Object.entries(SPELLINGS).flatMap(([usual, others]) => others.map(other => [other, usual] as const)),
)

/**
 * When two texts of notices are the same, for everything that shows, groups, joins, filters or searches by a text. In two
 * languages that agree (`test/corpus/texts/keys.yaml`): for the program, and as SQL, for tables and marts.
 *
 * - A text is *clean* as it is shown: NFC, one plain space for each run of white space and controls, nothing invisible.
 * - Its *key* has neither case nor accents, too.
 * - The key of a modality has no punctuation either, and is the same for all spellings in `MODALITY_SPELLINGS`.
 */

type Range = readonly [first: number, last: number]

/** Controls and the separators of lines and paragraphs. */
const CONTROLS: readonly Range[] = [
  [0x00, 0x1f],
  [0x7f, 0x9f],
  [0x2028, 0x2029],
]

/** All spaces of Unicode; also the braille cell without dots, which looks like one. */
const SPACES: readonly Range[] = [
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x2800, 0x2800],
  [0x3000, 0x3000],
]

/**
 * Format characters, and others that Unicode lets programs ignore: soft hyphens, joiners, directions, tags, fillers,
 * variation selectors. As ranges, because libraries know different versions of Unicode.
 */
const INVISIBLE: readonly Range[] = [
  [0xad, 0xad],
  [0x34f, 0x34f],
  [0x61c, 0x61c],
  [0x115f, 0x1160],
  [0x17b4, 0x17b5],
  [0x180b, 0x180f],
  [0x200b, 0x200f],
  [0x202a, 0x202e],
  [0x2060, 0x206f],
  [0x3164, 0x3164],
  [0xfe00, 0xfe0f],
  [0xfeff, 0xfeff],
  [0xffa0, 0xffa0],
  [0xfff0, 0xfffb],
  [0x1bca0, 0x1bca3],
  [0x1d173, 0x1d17a],
  [0xe0000, 0xe0fff],
]

/** Most texts have only these and single spaces: characters that are visible, and that NFC leaves as they are. */
const PLAIN: readonly Range[] = [
  [0x21, 0x7e],
  [0xa1, 0xac],
  [0xae, 0x2ff],
  [0x2010, 0x2027],
  [0x2030, 0x205e],
]

/** Characters between the words of a key, or beside them: spaces, dashes, brackets, signs. */
const PUNCTUATION = '[^\\p{L}\\p{N}]'

type Escape = (code: string) => string
const inProgram: Escape = code => `\\u{${code}}`
const inSql: Escape = code => `\\x{${code}}`

function matchOne(ranges: readonly Range[], escaped: Escape, not = ''): string {
  const all = ranges.map(range => range.map(code => escaped(code.toString(16))).join('-'))
  return `[${not}${all.join('')}]`
}

/** Returns whether cleaning a text may change it. Each alternative is found in one pass. */
function oddPattern(escaped: Escape): string {
  return `${matchOne([[0x20, 0x20], ...PLAIN], escaped, '^')}|  |^ | $|^$`
}

const ODD = new RegExp(oddPattern(inProgram), 'u')
const BLANK_RUN = new RegExp(`${matchOne([...CONTROLS, ...SPACES], inProgram)}+`, 'gu')
const CONTROL_RUN = new RegExp(`${matchOne(CONTROLS, inProgram)}+`, 'gu')
const INVISIBLE_RUN = new RegExp(`${matchOne(INVISIBLE, inProgram)}+`, 'gu')
const PUNCTUATION_RUN = new RegExp(`${PUNCTUATION}+`, 'gu')
const MARKS = /\p{M}+/gu

/** Returns a text as it is shown; empty if nothing in it is visible. */
export function cleanText(text: string): string {
  if (!ODD.test(text)) return text
  const visible = text.toWellFormed().replaceAll(INVISIBLE_RUN, '')
  return visible.replaceAll(BLANK_RUN, ' ').trim().normalize('NFC')
}

/**
 * Returns a text as a terminal can show it, in one line: without characters that it would obey or hide. Spaces stay, because
 * tables show values as they are.
 */
export function makePrintable(text: string): string {
  return text.toWellFormed().replaceAll(INVISIBLE_RUN, '').replaceAll(CONTROL_RUN, ' ')
}

/** Cleans a text as `printable` does, but keeps its line feeds. */
export function makePrintableLines(text: string): string {
  return text.split('\n').map(makePrintable).join('\n')
}

/** Returns one key for texts that differ only in case, accents, spaces or invisible characters; empty if nothing is visible. */
export function makeTextKey(text: string): string {
  return fold(cleanText(text))
}

/** Returns a text in lower case without accents. A final sigma becomes a plain one: DuckDB does not see where a word ends. */
export function fold(text: string): string {
  const plain = text.normalize('NFD').replaceAll(MARKS, '').normalize('NFC')
  return plain.toLowerCase().replaceAll('ς', 'σ')
}

/** Returns one key for all spellings of a modality; empty if it has no word. */
export function makeModalityKey(text: string): string {
  const words = makeTextKey(text).replaceAll(PUNCTUATION_RUN, ' ').trim()
  return MODALITY_SPELLINGS.get(words) ?? words
}

/** Returns SQL for `cleanText`, but NULL if nothing is visible. @param text SQL for a text. */
function cleanSql(text: string): string {
  return `CASE WHEN ${isOddSql(text)} THEN nullif(${cleanedSql(text)}, '') ELSE ${text} END`
}

/** Returns SQL for a text's clean form, or NULL if that is the text itself; to store it beside the text. */
export function cleanIfOtherSql(text: string): string {
  return `CASE WHEN ${isOddSql(text)} THEN nullif(${cleanedSql(text)}, ${text}) END`
}

function isOddSql(text: string): string {
  return `regexp_matches(${text}, '${oddPattern(inSql)}')`
}

function cleanedSql(text: string): string {
  const visible = `regexp_replace(${text}, '${matchOne(INVISIBLE, inSql)}+', '', 'g')`
  return `nfc_normalize(trim(regexp_replace(${visible}, '${matchOne([...CONTROLS, ...SPACES], inSql)}+', ' ', 'g')))`
}

/** Returns SQL for `makeTextKey`, but NULL if nothing is visible. */
function keySql(text: string): string {
  return `replace(lower(strip_accents(${cleanSql(text)})), 'ς', 'σ')`
}

/** Returns SQL for `makeModalityKey`, but NULL if nothing is visible. Not CASE, which would compute the words for each spelling. */
function modalityKeySql(text: string): string {
  const words = `trim(regexp_replace(${keySql(text)}, '${PUNCTUATION}+', ' ', 'g'))`
  const list = (texts: Iterable<string>) => `[${[...texts].map(one => `'${one}'`).join(', ')}]`
  const place = `list_position(${list(MODALITY_SPELLINGS.keys())}, ${words})`
  return `coalesce(list_extract(${list(MODALITY_SPELLINGS.values())}, ${place}), ${words})`
}

/** Macros for marts, and for questions to them; each is NULL for a text in which nothing is visible. */
export const TEXT_MACROS = [
  { name: 'texto_limpo', parameters: 'texto', sql: cleanSql('texto') },
  { name: 'chave', parameters: 'texto', sql: keySql('texto') },
  { name: 'chave_modalidade', parameters: 'texto', sql: modalityKeySql('texto') },
] as const
