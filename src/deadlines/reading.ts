import {
  type BoundTime,
  bindTimes,
  CONTEXT,
  hasLabel,
  isOverBeforeDay,
  isReference,
  type Role,
} from './bind.ts'
import {
  type Act,
  findActs,
  findImpossibleTimes,
  findTimes,
  type PlainText,
  readPlainText,
  type TimeToken,
} from './tokens.ts'

/** Places in a `PlainText`. */
type Span = { readonly start: number; readonly end: number }

/** Longer ones are sentences, which have clauses. */
const MAX_LABEL = 70
/** "24/11/2026 a 04/12/2026", "03/12/2026 às 18h ou 04/12/2026". */
const MAX_BETWEEN_DAYS = 30
/** The event of a day, if it is no act. */
const EVENT =
  /\b(?:public|divulg|disponibiliz|sess(?:ao|oes)\b|abertura|disputa|lances\b|certame\b|propostas?\b|inicio\b|recebimento|acolhimento|licitacao|contrato\b)/
const TIME_BEHIND =
  /^\s?,?\s?-?\s?\(?(?:ate )?(?:as? )?\d{1,2}\s?(?:h[a-z]*|:)\s?(?:\d{2})?(?::\d{2})?\s?(?:h[a-z]*\b|min\b)?\)?/
/** The words between a day and a label that follows it, or between a label and a day that follows it. */
const [MARKS_BEHIND, MARKS_BEFORE] = [/^[\s;|.,•·*/:=()→-]+/, /[\s;|.,•·*/:=()→-]+$/]
/** A label has none of these: two of them, or sentences, are between the days. */
const INSIDE = /[\n;|•·*]|\.\s/
/** Behind a label, they begin the next day. */
const WORDS_OF_DAY = /(?:\b(?:e|ate|antes|em|no|dia|o|as?|ao|d[eo])\b|[^a-z0-9)])+$/
/** Only a heading is before such words and the first day. */
const HEADING = /(?:^|[\n:;|.*-])\s*$/

/**
 * Rewrites a timetable, in which days and what happens on them take turns, as lines such as "Impugnação: 04/12/2026". The
 * days may come first, and any marks may be in between: "03/12 | Impugnação | 09/12 | Sessão". Other texts stay as they are.
 */
function timetableAsLines(plain: PlainText, times: readonly TimeToken[]): PlainText {
  const { folded } = plain
  const days = daysIn(folded, times)
  const [first, last] = [days[0], days.at(-1)]
  if (first === undefined || last === undefined || first === last) return plain
  const between = days.slice(1).map((day, index) => ({ start: (days[index] as Span).end, end: day.start }))
  if (!between.every(span => span.end - span.start <= MAX_LABEL && isLabel(folded, span))) return plain
  const before = { start: Math.max(0, first.start - MAX_LABEL), end: first.start }
  const behind = { start: last.end, end: endOfLabel(folded, last.end) }
  if (isLabel(folded, before) === isLabel(folded, behind)) return plain
  const lines = isLabel(folded, before)
    ? linesOfLabels(folded, days, [before, ...between])
    : linesOfDays(folded, days, [before, ...between, behind])
  return lines ? assembled(plain, lines) : plain
}

function daysIn(folded: string, times: readonly TimeToken[]): Span[] {
  const days: { start: number; end: number }[] = []
  for (const { start, end, time } of times) {
    if (time.kind !== 'dia' && time.kind !== 'dia_mes') continue
    if (isReference(folded.slice(Math.max(0, start - CONTEXT), start))) continue
    const last = days.at(-1)
    const isBeside =
      last && start - last.end <= MAX_BETWEEN_DAYS && !isLabel(folded, { start: last.end, end: start })
    const endWithTime = end + (TIME_BEHIND.exec(folded.slice(end, end + MAX_BETWEEN_DAYS))?.[0].length ?? 0)
    if (isBeside) last.end = endWithTime
    else days.push({ start, end: endWithTime })
  }
  return days
}

function isLabel(folded: string, { start, end }: Span): boolean {
  const words = folded.slice(start, end)
  return findActs(words).length > 0 || EVENT.test(words)
}

function endOfLabel(folded: string, start: number): number {
  const words = folded.slice(start, start + MAX_LABEL)
  const marks = MARKS_BEHIND.exec(words)?.[0].length ?? 0
  const end = words.slice(marks).search(INSIDE)
  return start + (end < 0 ? words.length : marks + end)
}

/** Parts of a new text: places of the old one, and what is written between them. */
type Part = Span | string

/**
 * Splits a table whose labels stand before their days into lines, as in "Impugnação ..... 03/12/2026 | Sessão ..... 09/12/2026".
 */
function linesOfLabels(folded: string, days: readonly Span[], labels: readonly Span[]): Part[] | null {
  const parts: Part[] = []
  for (const [index, day] of days.entries()) {
    const { start, end } = labels[index] as Span
    const label = trimmed(folded, { start, end })
    if (index > 0 && INSIDE.test(folded.slice(label.start, label.end))) return null
    const isMarked = /[\n;|.•·*]/.test(folded.slice(label.end, end))
    parts.push({ start: index === 0 ? 0 : label.start, end: isMarked ? label.end : end })
    parts.push(isMarked ? ': ' : '', day, '\n')
  }
  return [...parts, { start: (days.at(-1) as Span).end, end: folded.length }]
}

/** Splits a table whose labels stand behind their days into lines, as in "03/12/2026 | Impugnação | 09/12/2026 | Sessão". */
function linesOfDays(folded: string, days: readonly Span[], labels: readonly Span[]): Part[] | null {
  const starts = labels.slice(0, -1).map(span => span.end - wordsOfDay(folded, span))
  if (!HEADING.test(folded.slice(labels[0]?.start, starts[0]))) return null
  const parts: Part[] = [{ start: 0, end: starts[0] as number }]
  for (const [index, day] of days.entries()) {
    const { start, end } = labels[index + 1] as Span
    const label = trimmed(folded, { start, end: starts[index + 1] ?? end })
    if (INSIDE.test(folded.slice(label.start, label.end))) return null
    parts.push('\n', label, ': ', { start: starts[index] as number, end: day.end })
  }
  return [...parts, '\n', { start: labels.at(-1)?.end as number, end: folded.length }]
}

/** Returns how many characters before a day belong to it. */
function wordsOfDay(folded: string, { start, end }: Span): number {
  const words = WORDS_OF_DAY.exec(folded.slice(start, end))?.[0] ?? ''
  return words.replace(MARKS_BEHIND, '').length
}

function trimmed(folded: string, { start, end }: Span): Span {
  const words = folded.slice(start, end)
  const first = start + (MARKS_BEHIND.exec(words)?.[0].length ?? 0)
  return { start: first, end: Math.max(first, end - (MARKS_BEFORE.exec(words)?.[0].length ?? 0)) }
}

function assembled({ shown, folded, isCut }: PlainText, parts: readonly Part[]): PlainText {
  const readText = (text: string) =>
    parts.map(part => (typeof part === 'string' ? part : text.slice(part.start, part.end))).join('')
  return { shown: readText(shown), folded: readText(folded), isCut }
}

/**
 * One way to read the last day of an act in a text. Exactly one of `dia`, `dia_mes`, `dia_do_mes` and `n` is there. The day
 * follows from it, the session and the calendar (`src/marts/prazos_calculados.sql`).
 */
type Reading = {
  /** A whole day, `2026-12-04`. */
  readonly dia?: string
  /** A day without a year, `12-04`. */
  readonly dia_mes?: string
  /** A day without a month. */
  readonly dia_do_mes?: number
  /** A number of days or hours. */
  readonly n?: number
  readonly unidade?: 'uteis' | 'corridos' | 'horas'
  /** The text says only "dias", so business days are a choice: the earlier one. */
  readonly sem_tipo?: true
  /** Counted from the publication onwards; otherwise from the session backwards. */
  readonly apos_publicacao?: true
  /** The day of the event that it counts from, if the text has it. */
  readonly base?: string
  /** Its words name something else, such as the answer, and only its place in the text says that it is of the act. */
  readonly solto?: true
  /** Whether the clause names the act. */
  readonly nomeado: boolean
  /** The clause. */
  readonly trecho: string
}

/** The last days to contest a notice and to ask questions, as a text states them. */
export type Deadlines = {
  readonly impugnacao: readonly Reading[]
  readonly esclarecimento: readonly Reading[]
  /** The text was too long to be read as a whole. */
  readonly cortado?: true
  /** It has days that do not exist, or names contesting and has days, but none is read as the last day to contest. */
  readonly sem_leitura?: true
}

/**
 * Reads the deadlines that a notice states in its own words. Clauses are found, each with its acts and its days. The
 * deadlines of an act count for it; if none of them can be counted, those without a name do.
 */
function readDeadlines(text: string): Deadlines {
  const written = readPlainText(text)
  const found = findTimes(written.folded)
  const plain = timetableAsLines(written, found)
  const times = bindTimes(plain.folded, plain === written ? found : findTimes(plain.folded))
  const deadlines = times.filter(({ role }) => role === 'prazo')
  const unnamed = deadlines.filter(({ acts, isContinued }) => acts.size === 0 || isContinued)
  const isContestNamed = deadlines.some(({ acts }) => acts.has('impugnacao'))
  const readings = (act: Act) => {
    const named = times.filter(({ acts }) => acts.has(act))
    const read = (nomeado: boolean, chosen: readonly BoundTime[]) => distinct(plain, chosen, nomeado, times)
    return takeFirst([
      () =>
        read(
          true,
          named.filter(({ role }) => role === 'prazo'),
        ),
      // A text that names contesting says nothing of questions if it does not name them, too.
      () => read(false, act === 'impugnacao' || !isContestNamed ? unnamed : []),
      // If it is not the day of the session, a day beside both the act and the session is the deadline.
      () =>
        read(
          false,
          named.filter(({ role, time }) => role === 'sessao' && time.kind === 'dia'),
        ),
    ])
  }
  const impugnacao = readings('impugnacao')
  const isUnread = impugnacao.length === 0 && hasUnreadDay(plain.folded, times)
  return {
    impugnacao,
    esclarecimento: readings('esclarecimento'),
    ...(plain.isCut ? { cortado: true as const } : {}),
    ...(isUnread ? { sem_leitura: true as const } : {}),
  }
}

function hasUnreadDay(folded: string, times: readonly BoundTime[]): boolean {
  if (times.length > 0 && findActs(folded).some(({ act }) => act === 'impugnacao')) return true
  return findImpossibleTimes(folded).some(at => !isReference(folded.slice(Math.max(0, at - CONTEXT), at)))
}

function takeFirst(sources: readonly (() => Reading[])[]): Reading[] {
  for (const source of sources) {
    const readings = source()
    if (readings.length > 0) return readings
  }
  return []
}

/** More readings of one act are noise. */
const MAX_READINGS = 12

function distinct(
  plain: PlainText,
  deadlines: readonly BoundTime[],
  nomeado: boolean,
  times: readonly BoundTime[],
): Reading[] {
  const known = new Map<string, Reading>()
  for (const deadline of deadlines) {
    for (const day of readDays(plain.folded, deadline, times)) {
      const key = JSON.stringify(day)
      if (!known.has(key))
        known.set(key, {
          ...day,
          ...looseness(plain.folded, deadline),
          nomeado,
          trecho: takeClause(plain, deadline),
        })
    }
    if (known.size >= MAX_READINGS) break
  }
  return [...known.values()]
}

function looseness(folded: string, { acts, isContinued, clause, index }: BoundTime): Pick<Reading, 'solto'> {
  const hasAnswer = clause.times.length === 1 && clause.acts.some(({ act }) => /resposta|recurso/.test(act))
  const isLoose = (acts.size === 0 || isContinued) && (hasAnswer || hasLabel(folded, clause, index))
  return isLoose ? { solto: true } : {}
}

type Day = Omit<Reading, 'nomeado' | 'trecho'>

/** Returns the ways to read one deadline: several if it gives several numbers, or if it does not say which days count. */
function readDays(folded: string, deadline: BoundTime, times: readonly BoundTime[]): Day[] {
  const { time, clause, index } = deadline
  switch (time.kind) {
    case 'dia':
      return [{ dia: isOverBeforeDay(folded, clause, index) ? dayBefore(time.dia) : time.dia }]
    case 'dia_mes':
      return [{ dia_mes: time.diaMes }]
    case 'dia_do_mes':
      return [{ dia_do_mes: time.diaDoMes }]
    case 'mesmo':
      return []
    case 'periodo': {
      const event = findEvent(folded, deadline, times)
      if (event === null) return []
      return time.numbers.flatMap((n): Day[] => {
        if (time.unit !== 'dias') return [{ n, unidade: time.unit, ...event }]
        return [
          { n, unidade: 'uteis', sem_tipo: true, ...event },
          { n, unidade: 'corridos', ...event },
        ]
      })
    }
  }
}

const AFTER_EVENT =
  /\b(?:apos|depois|a contar|contad[oa]s?|a partir|desde|subsequentes?|seguintes?|posterior(?:es)?)\b/
const AHEAD_OF_EVENT =
  /\b(?:antes|anterior(?:es)?|antecede[a-z]*|antecedencia|preced[a-z]*|previ[a-z]*|antecipad[a-z]*|retroativ[a-z]*|regressiv[a-z]*|retro)\b/
/** "5 dias úteis da publicação" */
const OF_PUBLICATION =
  /^\s?d[aeo]\s(?:data\s(?:d[aeo]\s)?)?(?:sua\s)?(?:publica|divulga|disponibiliza|veicula)/
/** A notice cannot be contested after the session: it is counted backwards. */
const COUNTED_FROM_SESSION =
  /\b(?:a contar|contad[oa]s?)\b[^;]{0,40}\b(?:sessao|abertura|certame|propostas)\b/
/** So far behind a period, words and days are about its event. */
const [MAX_EVENT, MAX_LATER] = [300, 6]
const PUBLICATION = /\b(?:publicac|publicad|divulg|disponibiliz|veicul)/
/**
 * Returns which event a period counts from: the session, or the publication. Null if it is another one, such as that somebody
 * asks.
 */
function findEvent(
  folded: string,
  { start, end, clause, index, beside }: BoundTime,
  all: readonly BoundTime[],
): Pick<Reading, 'apos_publicacao' | 'base'> | null {
  const later = beside.slice(index + 1, index + 1 + MAX_LATER)
  const next = later.find(({ role }) => role === 'prazo')
  const after = folded.slice(end, Math.min(next?.start ?? clause.end, end + MAX_EVENT))
  const nearby = folded.slice(Math.max(clause.start, start - CONTEXT / 2), start)
  // "Entrega em 10 dias após a assinatura, impugnação em 5 dias úteis": the event is of the other period.
  const isAfterPeriod = beside[index - 1]?.time.kind === 'periodo'
  const before = isAfterPeriod ? takeLastPart(nearby) : nearby
  const words = AFTER_EVENT.test(after) || AHEAD_OF_EVENT.test(after) ? after : `${before} ${after}`
  const isAfter = AFTER_EVENT.test(words) || OF_PUBLICATION.test(after)
  if (AHEAD_OF_EVENT.test(words) || !isAfter) return findDay('sessao', later)
  if (PUBLICATION.test(words) || later.some(({ role }) => role === 'publicacao'))
    return { apos_publicacao: true, ...findDay('publicacao', all) }
  // "3 dias úteis a partir de 24/11/2026"
  if (later[0]?.role === 'inicio') return { apos_publicacao: true, ...findDay('inicio', later) }
  return COUNTED_FROM_SESSION.test(words) ? findDay('sessao', later) : null
}

/** Returns the words after the last comma, or from the last act on. */
function takeLastPart(words: string): string {
  return words.slice(Math.max(words.lastIndexOf(',') + 1, findActs(words).at(-1)?.start ?? 0))
}

function findDay(role: Role, times: readonly BoundTime[]): Pick<Reading, 'base'> {
  const found = times.find(time => time.role === role && time.time.kind === 'dia')
  return found?.time.kind === 'dia' ? { base: found.time.dia } : {}
}

function dayBefore(day: string): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) - 86_400_000).toISOString().slice(0, 10)
}

const MAX_EXCERPT = 200
/** So much of a long clause is shown before its day. */
const EXCERPT_BEFORE = 60

/** Returns the clause, or what is around the time if it is long. */
function takeClause({ shown }: PlainText, { start, end, clause }: BoundTime): string {
  const isLong = clause.end - clause.start > MAX_EXCERPT
  const first = Math.min(start, end - MAX_EXCERPT + EXCERPT_BEFORE) - EXCERPT_BEFORE
  const from = isLong ? Math.max(clause.start, first) : clause.start
  const to = Math.min(clause.end, from + MAX_EXCERPT)
  const text = shown.slice(from, to).toWellFormed().replace(/\s+/g, ' ').trim()
  return `${from > clause.start ? '…' : ''}${text}${to < clause.end ? '…' : ''}`
}

/** Raise it, and `STATEMENTS_VERSION`, if the same texts give another reading: warehouses are then rebuilt from their logs. */
export const READER_VERSION = 2

/** Many notices have the same texts. */
const MAX_KEPT = 10_000
/** Longer texts are read each time. */
const MAX_KEPT_CHARACTERS = 1_000

const kept = new Map<string, string | null>()

/**
 * Reads what a notice states of its deadlines, as JSON text: the readings of each act, and the laws (`readLaws`).
 * @returns null if both texts are empty.
 */
export function readDeadlinesAsJson(text: string, law: string): string | null {
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
  const [named, stated] = [law, text].map(words => readPlainText(words).folded.replace(/\s+/g, ' ')) as [
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
