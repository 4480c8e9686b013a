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
function numberOf(text: string): number {
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
export function actsIn(folded: string): ActToken[] {
  return Array.from(folded.matchAll(ACT), match => {
    const [act] = ACTS.find((_, index) => match.groups?.[`a${index}`] !== undefined) as (typeof ACTS)[number]
    return { act, start: match.index, end: match.index + match[0].length }
  })
}

/** Finds the times in a text. @param folded see `PlainText`. */
export function timesIn(folded: string): TimeToken[] {
  return Array.from(folded.matchAll(TIMES)).flatMap(match => {
    const time = timeOf(match.groups as Groups)
    return time ? [{ time, start: match.index, end: match.index + match[0].length }] : []
  })
}

/** Returns where something is written like a time but cannot be one: "31/02/2026", "999 dias úteis". */
export function impossibleTimesIn(folded: string): number[] {
  return Array.from(folded.matchAll(TIMES)).flatMap(match =>
    timeOf(match.groups as Groups) ? [] : [match.index],
  )
}

type Groups = Readonly<Record<string, string | undefined>>

function timeOf(parts: Groups): Time | null {
  return (
    dateOf(parts.isoYear, parts.isoMonth, parts.isoDay) ??
    dateOf(parts.year, parts.month, parts.day) ??
    dateOf(parts.shortYear, parts.shortMonth, parts.shortDay) ??
    namedDateOf(parts) ??
    dateOf('', parts.plainMonth ?? parts.dottedMonth, parts.plainDay ?? parts.dottedDay) ??
    periodOf(parts) ??
    otherTimeOf(parts)
  )
}

/** Reads a date; null if there is no such day. @param year of two or four digits; empty if the text has none. */
function dateOf(year: string | undefined, month: string | undefined, day: string | undefined): Time | null {
  if (year === undefined || month === undefined || day === undefined) return null
  const full = year === '' ? '2000' : year.length === 2 ? `20${year}` : year.replace('.', '')
  const text = `${full}-${month.padStart(2, '0')}-${day.padStart(2, '0')}`
  const date = new Date(`${text}T00:00:00Z`)
  if (Number.isNaN(date.getTime()) || !date.toISOString().startsWith(text)) return null
  return year === '' ? { kind: 'dia_mes', diaMes: text.slice(5) } : { kind: 'dia', dia: text }
}

function namedDateOf({ namedDay, namedMonth, abbreviated, namedYear = '' }: Groups): Time | null {
  if (namedDay === undefined) return null
  const month = MONTHS.indexOf((namedMonth ?? abbreviated ?? '').slice(0, 3)) + 1
  return dateOf(namedYear, String(month), String(numberOf(namedDay)))
}

/** Longer ones are no deadlines of a tender. */
const MAX_DAYS = 60
const MAX_HOURS = 240
const DAYS_OF_WEEK = 7

function periodOf({
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
    text === undefined ? [] : [numberOf(text)],
  )
  const what = unitOf(unitText)
  const isWeek = unitText.startsWith('semana')
  const plausible = numbers
    .map(count => (isWeek ? count * DAYS_OF_WEEK : count))
    .filter(count => count >= 1 && count <= (what === 'horas' ? MAX_HOURS : MAX_DAYS))
  if (plausible.length === 0) return null
  if (what === 'horas' && unitText.includes('uteis'))
    return { kind: 'periodo', numbers: plausible.map(count => Math.ceil(count / 24)), unit: 'uteis' }
  return { kind: 'periodo', numbers: plausible, unit: isWeek ? 'corridos' : what }
}

function unitOf(text: string): Unit {
  if (/^(?:h|horas?|hs|hrs)\b/.test(text)) return 'horas'
  if (/corrid|consecutiv|ininterrupt|continu/.test(text)) return 'corridos'
  return /[u?\ufffd]\s?t|d\.?\s?u/.test(text) ? 'uteis' : 'dias'
}

function otherTimeOf({ eve, onlyDay, session, same }: Groups): Time | null {
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
