import { plainText } from './plain_text.ts'
import { readDeadlines } from './read.ts'

/** Raise it, and `STATEMENTS_VERSION`, if the same texts give another reading: warehouses are then rebuilt from their logs. */
export const READER_VERSION = 2

/** Many notices have the same texts. */
const MAX_KEPT = 10_000
/** Longer texts are read each time. */
const MAX_KEPT_CHARACTERS = 1_000

const kept = new Map<string, string | null>()

/**
 * Reads what a notice states of its deadlines, as JSON text: the readings of each act (`read.ts`), and the laws (`readLaws`).
 * @returns null if both texts are empty.
 */
export function deadlineReading(text: string, law: string): string | null {
  if (text === '' && law === '') return null
  if (text.length + law.length > MAX_KEPT_CHARACTERS) return read(text, law)
  const key = `${text}\0${law}`
  const known = kept.get(key)
  if (known !== undefined) return known
  const reading = read(text, law)
  if (kept.size >= MAX_KEPT) kept.clear()
  kept.set(key, reading)
  return reading
}

function read(text: string, law: string): string {
  return JSON.stringify({ ...readDeadlines(text), ...readLaws(law, text) })
}

/**
 * A law with a term to contest. `regulamento`: the own rules of a state company, which follow Lei 13.303/2016.
 * `pregao`: Lei 10.520/2002, whose term depends on whether the session is electronic.
 */
type Norm = '14133' | '13303' | 'regulamento' | '10024' | '3555' | 'pregao' | '8666' | '12462'

const NORMS: readonly (readonly [Norm, RegExp])[] = [
  ['13303', lawPattern('13', '303', '16', String.raw`\bestatais\b|\blei das empresas publicas\b`)],
  ['14133', lawPattern('14', '133', '21', String.raw`\bnova lei de licitacoes\b|\bnllc?\b`)],
  ['10024', lawPattern('10', '024', '19')],
  ['3555', lawPattern('3', '555', '00')],
  ['pregao', lawPattern('10', '520', '02', String.raw`\blei do pregao\b`)],
  ['8666', lawPattern('8', '666', '93')],
  // The health agency's resolutions are "RDC nº 16/2013", too.
  [
    '12462',
    lawPattern(
      '12',
      '462',
      '11',
      String.raw`\bregime diferenciado\b|\brdc\b(?!\s?[/-]?\s?(?:anvisa|n[o°.]|\d))`,
    ),
  ],
  [
    'regulamento',
    /\bri?lc[a-z]?\b|\brelic\b|\bregulamento (?:interno |proprio )?(?:de|das|para) (?:licitacoes|licitacao|compras|contratacoes|contratos)|\bregulamento de licitac|\bregulamento interno\b/,
  ],
]

/**
 * Returns a pattern for a law by its number, which stands behind "lei" or "decreto", or beside nothing that makes it a price, a
 * telephone or a file.
 * @param year its last two digits.
 */
function lawPattern(thousands: string, units: string, year: string, names?: string): RegExp {
  const number = String.raw`${thousands}\.?\s?${units}(?!\d)`
  const called = String.raw`\b(?:leis?|decretos?|l\.)[^0-9]{0,25}${number}`
  const alone = String.raw`(?<![\d.,/()-]\s?)${number}(?![.,-]\d|\s?/\s?(?!(?:19|20)?${year}\b)\d)`
  return new RegExp([called, alone, ...(names ? [names] : [])].join('|'))
}

/** Direct contracting, as in Lei 14.133/2021 and the laws before it. Articles of other laws do not count. */
const DIRECT = /\b(?:dispensa|inexigi[a-z]*|contratacao direta)\b/
const DIRECT_ARTICLE = /\barts?\.?\s?7[45]\b/

type NamedLaws = {
  /** The laws that the notice names, the most specific ones. */
  readonly normas: readonly Norm[]
  /** Whether it contracts without a tender, which nobody can contest under these laws. */
  readonly direta: boolean
}

/**
 * Reads the laws that a notice names.
 * @param law the law as the notice names it.
 * @param text of its deadlines. A law that is named only there counts, too.
 */
function readLaws(law: string, text: string): NamedLaws {
  const [named, stated] = [law, text].map(words => plainText(words).folded.replace(/\s+/g, ' ')) as [
    string,
    string,
  ]
  const own = normsIn(named)
  const others = normsIn(stated).filter(norm => !own.includes(norm))
  const direta = DIRECT.test(named) || (DIRECT_ARTICLE.test(named) && !own.some(norm => norm !== '14133'))
  return { normas: mostSpecific([...own, ...others]), direta }
}

function normsIn(words: string): Norm[] {
  return NORMS.flatMap(([norm, pattern]) => (pattern.test(words) ? [norm] : []))
}

/**
 * Leaves out laws that a more specific one replaces: a decree regulates the law of the pregão, which comes before the general
 * Lei 8.666; a company's rules follow its law.
 */
function mostSpecific(norms: readonly Norm[]): Norm[] {
  const has = (norm: Norm) => norms.includes(norm)
  return norms.filter(norm => {
    if (norm === 'regulamento') return norms.length === 1
    if (norm === 'pregao') return !has('10024') && !has('3555') && !has('14133')
    if (norm === '8666') return !has('pregao') && !has('10024') && !has('3555')
    return true
  })
}
