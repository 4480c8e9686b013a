/** The parts of a text about deadlines. */

/** Numbers as tenders write them: digits, words, ordinals. */
const UNITS: readonly (readonly string[])[] = [
  ['zero'],
  ['um', 'uma', 'primeiro', 'primeira'],
  ['dois', 'duas', 'segundo'],
  ['tres', 'terceiro'],
  ['quatro', 'quarto'],
  ['cinco', 'quinto'],
  ['seis', 'sexto'],
  ['sete', 'setimo'],
  ['oito', 'oitavo'],
  ['nove', 'nono'],
  ['dez'],
  ['onze'],
  ['doze'],
  ['treze'],
  ['quatorze', 'catorze'],
  ['quinze'],
  ['dezesseis'],
  ['dezessete'],
  ['dezoito'],
  ['dezenove'],
]
/** A smaller number can follow: "vinte e cinco", "décimo quinto". */
const TENS: readonly (readonly [string, number])[] = [
  ['decimo', 10],
  ['vinte', 20],
  ['vigesimo', 20],
  ['trinta', 30],
  ['trigesimo', 30],
  ['quarenta', 40],
  ['cinquenta', 50],
  ['cincoenta', 50],
  ['sessenta', 60],
  ['setenta', 70],
  ['oitenta', 80],
  ['noventa', 90],
]
const HUNDREDS: readonly (readonly [string, number])[] = [
  ['cento', 100],
  ['cem', 100],
]

const VALUES = new Map<string, number>([
  ...UNITS.flatMap((words, value) => words.map(word => [word, value] as const)),
  ...TENS,
  ...HUNDREDS,
])

const SMALL = UNITS.flat().join('|')
const BELOW_HUNDRED = `(?:${TENS.map(([word]) => word).join('|')})(?:\\s+(?:e\\s+)?(?:${SMALL}))?|${SMALL}`

/** The source of a regular expression for a number, in folded text; with a word's end behind a word. */
const numberPattern = `(?:\\d{1,3}|(?:(?:cento\\s+e\\s+)?(?:${BELOW_HUNDRED})|cem)\\b)`

/** Reads a number in digits or words. @param text that matches `numberPattern`. */
function parseNumber(text: string): number {
  if (/^\d/.test(text)) return Number(text)
  return text.split(/\s+(?:e\s+)?/).reduce((sum, word) => sum + (VALUES.get(word) ?? 0), 0)
}

/** The act that someone may do until a day. `outro`: another deadline, such as that of a delivery. */
export type Act = 'impugnacao' | 'esclarecimento' | 'recurso' | 'resposta' | 'outro'

/** The day of a time, or how far it is from an event. */
export type Time =
  | { readonly kind: 'dia'; readonly dia: string }
  /** A day without a year, as `MM-DD`. */
  | { readonly kind: 'dia_mes'; readonly diaMes: string }
  | { readonly kind: 'dia_do_mes'; readonly diaDoMes: number }
  /** Numbers that the text gives for the same period: `3 (cinco)`, `3 ou 5`. */
  | { readonly kind: 'periodo'; readonly numbers: readonly number[]; readonly unit: Unit }
  /** "No mesmo prazo": the time before it. */
  | { readonly kind: 'mesmo' }

/** `dias`: the text does not say which days count. */
type Unit = 'uteis' | 'corridos' | 'dias' | 'horas'

type Span = { readonly start: number; readonly end: number }
export type ActToken = Span & { readonly act: Act }
export type TimeToken = Span & { readonly time: Time }

const MONTHS = ['jan', 'fev', 'mar', 'abr', 'mai', 'jun', 'jul', 'ago', 'set', 'out', 'nov', 'dez']
const MONTH_NAMES = 'janeiro|fevereiro|marco|abril|maio|junho|julho|agosto|setembro|outubro|novembro|dezembro'
const NUMBER = numberPattern
/** `3 (três)`, `três (03)`, `3 - três -`; a scan may have lost the letters. */
const REPEATED = String.raw`(?:\s?[(\[-]\s?(?<repeated>${NUMBER})\s?[)\]-]|\s?\([a-z?\ufffd ]{1,25}\))?`
/** Behind "dias": `úteis`, `(úteis)`, `útil(eis)`; of scans and keyboards: `út eis`, `úties`, `?teis`, `ut.`. */
const BUSINESS = String.raw`[u?\ufffd]\s?t(?:\s?e\s?i\s?s?|\s?i\s?e\s?s|i\s?l(?:\(?eis\)?)?|\.|\b)`
const CONSECUTIVE = 'corridos?|consecutivos?|ininterruptos?|continuos?'
const DAYS = String.raw`dias?(?:\(s\))?(?:\s?\(?\s?(?:${BUSINESS}|${CONSECUTIVE}))?`

const PATTERNS: Readonly<Record<string, string>> = {
  compact: String.raw`(?<!\d)(?<isoYear>\d{4})(?<isoMonth>\d{2})(?<isoDay>\d{2})(?=t\d{4})`,
  iso: String.raw`(?<![\d/.-])(?<isoYear>\d{4})[-/.](?<isoMonth>\d{1,2})[-/.](?<isoDay>\d{1,2})(?!\d)`,
  date: String.raw`(?<![\d/.-])(?<day>\d{1,2})[oa°]?\s?[/.-]\s?(?<month>\d{1,2})\s?[/.-]\s?(?<year>\d{4}|2\.0\d{2})(?!\d)`,
  short: String.raw`(?<![\d/.-])(?<shortDay>\d{1,2})\s?(?<mark>[/.-])\s?(?<shortMonth>\d{1,2})\s?\k<mark>\s?(?<shortYear>\d{2})(?![\d/]|[.-]\d(?!\d?\s?[h:]))`,
  named: String.raw`(?<![\d/.,-])(?<namedDay>\d{1,2}|${NUMBER})\s?[oa°]?\s?(?:\([a-z ]{1,30}\)\s?)?(?:(?:de|do mes de)\s|[/-]|\s)\s?(?:(?<namedMonth>${MONTH_NAMES})|(?<abbreviated>${MONTHS.join('|')})(?=\.?(?:\s?[/-]|\sde|\s)\s?\d{2}|\b))\b\.?(?:\s?(?:[/,-]|de|do ano de)?\s?(?<namedYear>\d{4}|(?<=[/-]\s?)\d{2})(?!\d))?`,
  dayMonth: String.raw`(?<![\d/.,]|(?<!/\d{1,2}\s?)-)(?<plainDay>\d{1,2})[oa°]?\s?/\s?(?<plainMonth>\d{1,2})(?![\d/]|[.,]\d|-\d(?!\d?/\d))`,
  dotted: String.raw`(?<=\b(?:ate|dia)\s)(?<dottedDay>\d{1,2})[.-](?<dottedMonth>\d{2})(?![\d/,-]|\.\d|\s?[dhu(])`,
  eve: String.raw`\b(?<eve>antevespera|vespera|(?:ante)?penultimo\s+dia(?:\s+util)?|(?:no |o |ao |ultimo )(?:ultimo\s+)?dia(?:\s+util)?(?:\s+imediatamente)?\s+anterior|dia\s+util(?:\s+imediatamente)?\s+anterior|ultimo\s+dia\s+util)\b`,
  period: String.raw`(?<![\da-z]|\d[/.,:])(?<number>${NUMBER})(?:\s?(?:a|ou|e|/|-|ate)\s?(?<other>${NUMBER}))?\s?\.?[oa°]?\.?\s?${REPEATED}\s?[)\]]?\s?(?<unit>d\.?\s?u\b\.?|d\.?\s?uteis|uteis\b|(?:primeiros?\s)?${DAYS}|(?:h|hs|hrs|horas?)\b(?:\s?\(?uteis)?|semanas?\b)`,
  labelled: String.raw`\b(?<labelUnit>dias?\s?\(?(?:uteis|util|corridos?|consecutivos?)?)\)?[^0-9;.\n]{0,40}[:=]\s?(?<labelNumber>\d{1,2})\b(?!\s?[/.:h-]?\d|\s?dia)`,
  minus: String.raw`(?<![a-z0-9])d\s?-\s?(?<minus>\d{1,2})\b(?:\s?(?<minusUnit>uteis|corridos))?`,
  dayOfMonth: String.raw`\bdia\s+(?<onlyDay>\d{1,2})\b(?!\s?[/-]|\.\d|\s+de\b|\s?[oa°(]|\s?(?:ute?is|util|dias?)\b|\s(?:${MONTHS.join('|')}))`,
  session: String.raw`\bate\s+(?:(?:o|a|ao)\s+)?(?:(?:dia|data|inicio|momento|hora|horario|propria|propri[oa] dia)\s+)?(?:(?:marcad|fixad|previst|designad)[oa]\s+para\s+(?:a|o)\s+)?(?:d[aeo]\s+)?(?:realizacao\s+d[aeo]\s+)?(?<session>abertura|sessao|certame|disputa)\b`,
  same: String.raw`\b(?<same>(?:mesm[oa]|igual|identic[oa])\s+(?:prazo|periodo|termo|data|dia))\b(?!\s+d[aeo]\s+(?:sessao|abertura))`,
}

const TIMES = new RegExp(Object.values(PATTERNS).join('|'), 'g')

/** Words that name an act. In keys such as `dataLimiteImpugnacao`, no end of a word stands before the act. */
const ACTS: readonly (readonly [Act, string])[] = [
  [
    'outro',
    String.raw`[il]?[mn]pug[a-z]*(?=\s(?:a?os?|d[eo]s?|as?|das?)\s(?:documento|habilita|proposta|resultado|classifica))`,
  ],
  ['recurso', String.raw`[il]?[mn]pug[a-z]*(?=\s(?:a?os?|d[eo]s?|as?|das?)\s(?:recurso|razoes))`],
  ['impugnacao', String.raw`[il]?[mn]pug[a-z]*|\bcontesta[a-z]*`],
  [
    'esclarecimento',
    String.raw`esclarec[a-z]*|\b(?:questionament[a-z]*|duvidas?|pedidos? de informac[a-z]*|consultas?|perguntas?)`,
  ],
  [
    'recurso',
    String.raw`\b(?:recurs(?:o|os|al|ais)\b(?! (?:orcament|financeir|human|propri|public|federa|estadua|municip|tecnolog))|recorrer|contrarraz[a-z]*)`,
  ],
  [
    'resposta',
    String.raw`\b(?:respost[a-z]*|respond[a-z]*|decidi[a-z]*|decisao|decisoes|julgad[a-z]*|julgar[a-z]*|julgamento|manifestar[a-z]*|manifestac[a-z]*|apreciac[a-z]*|apreciar[a-z]*|resultados?|parecer(?:es)?)`,
  ],
  [
    'outro',
    String.raw`\b(?:entrega[a-z]*|vigencia|validade|pagamento|assinatura|homologac[a-z]*|visitas?|vistorias?|amostras?|execucao|cadastr[a-z]*|inscric[a-z]*|garantia|liquidacao|reajuste|prestacao|multas?|sanc(?:ao|oes)|atraso|diligencias?|adjudicac[a-z]*|propostas?(?=\s?:?\s?ate\b))`,
  ],
]

const ACT = new RegExp(ACTS.map(([, words], index) => `(?<a${index}>${words})`).join('|'), 'g')

/** Finds the acts in a text. @param folded see `PlainText`. */
export function findActs(folded: string): ActToken[] {
  return Array.from(folded.matchAll(ACT), match => {
    const [act] = ACTS.find((_, index) => match.groups?.[`a${index}`] !== undefined) as (typeof ACTS)[number]
    return { act, start: match.index, end: match.index + match[0].length }
  })
}

/** Finds the times in a text. @param folded see `PlainText`. */
export function findTimes(folded: string): TimeToken[] {
  return Array.from(folded.matchAll(TIMES)).flatMap(match => {
    const time = parseTime(match.groups as Groups)
    return time ? [{ time, start: match.index, end: match.index + match[0].length }] : []
  })
}

/** Returns where something is written like a time but cannot be one: "31/02/2026", "999 dias úteis". */
export function findImpossibleTimes(folded: string): number[] {
  return Array.from(folded.matchAll(TIMES)).flatMap(match =>
    parseTime(match.groups as Groups) ? [] : [match.index],
  )
}

type Groups = Readonly<Record<string, string | undefined>>

function parseTime(parts: Groups): Time | null {
  return (
    parseDate(parts.isoYear, parts.isoMonth, parts.isoDay) ??
    parseDate(parts.year, parts.month, parts.day) ??
    parseDate(parts.shortYear, parts.shortMonth, parts.shortDay) ??
    parseNamedDate(parts) ??
    parseDate('', parts.plainMonth ?? parts.dottedMonth, parts.plainDay ?? parts.dottedDay) ??
    parsePeriod(parts) ??
    parseOtherTime(parts)
  )
}

/** Reads a date; null if there is no such day. @param year of two or four digits; empty if the text has none. */
function parseDate(
  year: string | undefined,
  month: string | undefined,
  day: string | undefined,
): Time | null {
  if (year === undefined || month === undefined || day === undefined) return null
  const full = year === '' ? '2000' : year.length === 2 ? `20${year}` : year.replace('.', '')
  const text = `${full}-${month.padStart(2, '0')}-${day.padStart(2, '0')}`
  const date = new Date(`${text}T00:00:00Z`)
  if (Number.isNaN(date.getTime()) || !date.toISOString().startsWith(text)) return null
  return year === '' ? { kind: 'dia_mes', diaMes: text.slice(5) } : { kind: 'dia', dia: text }
}

function parseNamedDate({ namedDay, namedMonth, abbreviated, namedYear = '' }: Groups): Time | null {
  if (namedDay === undefined) return null
  const month = MONTHS.indexOf((namedMonth ?? abbreviated ?? '').slice(0, 3)) + 1
  return parseDate(namedYear, String(month), String(parseNumber(namedDay)))
}

/** Longer ones are no deadlines of a tender. */
const MAX_DAYS = 60
const MAX_HOURS = 240
const DAYS_OF_WEEK = 7

function parsePeriod({
  number,
  other,
  repeated,
  unit,
  labelUnit,
  labelNumber,
  minus,
  minusUnit,
}: Groups): Time | null {
  const unitText = unit ?? labelUnit ?? (minus === undefined ? undefined : `dias ${minusUnit ?? ''}`)
  if (unitText === undefined) return null
  const numbers = [number, other, repeated, labelNumber, minus].flatMap(text =>
    text === undefined ? [] : [parseNumber(text)],
  )
  const what = parseUnit(unitText)
  const isWeek = unitText.startsWith('semana')
  const plausible = numbers
    .map(count => (isWeek ? count * DAYS_OF_WEEK : count))
    .filter(count => count >= 1 && count <= (what === 'horas' ? MAX_HOURS : MAX_DAYS))
  if (plausible.length === 0) return null
  if (what === 'horas' && unitText.includes('uteis'))
    return { kind: 'periodo', numbers: plausible.map(count => Math.ceil(count / 24)), unit: 'uteis' }
  return { kind: 'periodo', numbers: plausible, unit: isWeek ? 'corridos' : what }
}

function parseUnit(text: string): Unit {
  if (/^(?:h|horas?|hs|hrs)\b/.test(text)) return 'horas'
  if (/corrid|consecutiv|ininterrupt|continu/.test(text)) return 'corridos'
  return /[u?\ufffd]\s?t|d\.?\s?u/.test(text) ? 'uteis' : 'dias'
}

function parseOtherTime({ eve, onlyDay, session, same }: Groups): Time | null {
  if (same !== undefined) return { kind: 'mesmo' }
  if (session !== undefined) return { kind: 'periodo', numbers: [0], unit: 'corridos' }
  if (onlyDay !== undefined) {
    const day = Number(onlyDay)
    return day >= 1 && day <= 31 ? { kind: 'dia_do_mes', diaDoMes: day } : null
  }
  if (eve === undefined) return null
  const before = eve.startsWith('antepenultimo') ? 3 : /^(?:antevespera|penultimo)/.test(eve) ? 2 : 1
  return { kind: 'periodo', numbers: [before], unit: 'uteis' }
}

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
export function readPlainText(text: string): PlainText {
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
    const [labels, values] = [splitCells(rows[at] as string), splitCells(rows[at + 1] ?? '')]
    const isTable = labels.length > 1 && labels.length === values.length
    if (isTable && !labels.some(hasDigit) && values.every(hasDigit)) {
      lines.push(...labels.map((label, cell) => `${label}: ${values[cell]}`))
      at += 1
    } else lines.push(rows[at] as string)
  }
  return lines.join('\n')
}

function splitCells(row: string): string[] {
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
