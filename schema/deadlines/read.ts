import { type PlainText, plainText } from './plain_text.ts'
import { type Act, type ActToken, actsIn, type Time, type TimeToken, timesIn } from './tokens.ts'

/**
 * One way to read the last day of an act in a text. Exactly one of `dia`, `dia_mes`, `dia_do_mes` and `n` is there. The day
 * follows from it, the session and the calendar (`schema/marts/prazos_impugnacao.sql`).
 */
export type Reading = {
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
  /** Whether the clause names the act. */
  readonly nomeado: boolean
  /** The clause. */
  readonly trecho: string
}

/** What a text says of the days until which a notice may be contested and questions may be asked. */
export type Deadlines = {
  readonly impugnacao: readonly Reading[]
  readonly esclarecimento: readonly Reading[]
  /** The text was too long to be read as a whole. */
  readonly cortado?: true
}

const MAX_EXCERPT = 200
/** More readings of one act are noise. */
const MAX_READINGS = 12

/**
 * Reads the deadlines that a notice states in its own words. Clauses are found, each with its act and its days. The
 * clauses of an act count for it; if none names it, those that name none.
 */
export function readDeadlines(text: string): Deadlines {
  const plain = plainText(text)
  const times = bindTimes(plain)
  const readings = (act: Act) => {
    const named = times.filter(({ acts }) => acts.has(act))
    const chosen = named.length > 0 ? named : times.filter(time => isUnnamed(time, times, act))
    return distinct(chosen.flatMap(time => readingsOf(plain, time, named.length > 0, times)))
  }
  return {
    impugnacao: readings('impugnacao'),
    esclarecimento: readings('esclarecimento'),
    ...(plain.isCut ? { cortado: true as const } : {}),
  }
}

/** A time with the acts that it belongs to. */
type BoundTime = TimeToken & {
  readonly acts: ReadonlySet<Act>
  /** The clause does not name the acts, but the one before it does. */
  readonly isContinued: boolean
  readonly role: Role
  readonly clause: Clause
}

/** What a time is: a deadline, or the day of another event. */
type Role = 'prazo' | 'publicacao' | 'sessao' | 'inicio' | 'referencia'

type Clause = { readonly start: number; readonly end: number }
type Group = { readonly acts: ReadonlySet<Act>; readonly start: number; readonly end: number }

/** A time that names no act stands for the one that the field is about, and for questions if no clause is about contesting. */
function isUnnamed({ acts, isContinued, role }: BoundTime, all: readonly BoundTime[], act: Act): boolean {
  if (role !== 'prazo') return false
  if (act !== 'impugnacao' && all.some(time => time.acts.has('impugnacao'))) return false
  return acts.size === 0 || isContinued
}

function bindTimes({ folded }: PlainText): BoundTime[] {
  const [times, acts] = [timesIn(folded), actsIn(folded)]
  const bound: BoundTime[] = []
  let topic: Group | null = null
  for (const clause of clausesOf(folded, times)) {
    const inside = ({ start }: { start: number }) => start >= clause.start && start < clause.end
    const own = times.filter(inside).map(time => ({ ...time, role: roleOf(folded, time, clause, times) }))
    const groups = groupsOf(folded, acts.filter(inside), own)
    const deadlines = own.filter(({ role }) => role === 'prazo')
    for (const time of own) {
      const group = time.role === 'prazo' ? groupFor(folded, time, groups, deadlines) : null
      const isContinued = group === null && time.role === 'prazo' && topic !== null
      const named: Group | null = group ?? (isContinued ? topic : null)
      bound.push({ ...time, acts: named?.acts ?? NO_ACTS, isContinued, clause })
    }
    topic = groups.at(-1) ?? topic
  }
  return bound
}

const NO_ACTS: ReadonlySet<Act> = new Set()

/** Between clauses: a semicolon, a line break, a bullet, the end of a sentence. */
const SEPARATOR = /[;\n|•·▪●◦]|\.(?=\s|$)|\?|!/g
/** Behind these, a full stop is part of the word. */
const ABBREVIATION =
  /\b(?:arts?|n|no|nr|num|inc|par|fls?|p|pag|obs|ex|dr|sr|d|u|h|hs|hrs|min|dec|res|lic|cf|c|incs?)$/
const LONGEST_ABBREVIATION = 6

function clausesOf(folded: string, times: readonly TimeToken[]): Clause[] {
  const clauses: Clause[] = []
  let start = 0
  for (const { index, 0: mark } of folded.matchAll(SEPARATOR)) {
    if (times.some(time => time.start < index && index < time.end - 1)) continue
    if (mark === '.' && ABBREVIATION.test(folded.slice(Math.max(0, index - LONGEST_ABBREVIATION), index))) {
      if (!times.some(time => time.end === index + 1 || time.end === index)) continue
    }
    clauses.push({ start, end: index })
    start = index + 1
  }
  return [...clauses, { start, end: folded.length }]
}

const BEFORE_PUBLICATION =
  /\b(?:publicac[a-z]*|publicad[a-z]*|divulg[a-z]*|disponibiliz[a-z]*|veicul[a-z]*|lancad[a-z]*|dou|doe|dom|diario(?: oficial)?|imprensa(?: oficial)?|pncp)\b[^0-9;.]{0,40}$/
const BEFORE_SESSION =
  /\b(?:sessao|abertura|certame|disputa|lances|inicio|recebimento d[ae]s propostas|entrega d[ae]s propostas|propostas)\b[^0-9;]{0,40}$/
/** Of what a day is said to be. */
const COUNTED_FROM =
  /\b(?:antes|anterior(?:es)?|antecedencia|antecede[a-z]*|preced[a-z]*|previ[oa]s?)\b[^0-9;]{0,80}$/
const BEFORE_START =
  /(?:\b(?:a partir|desde|inicio|inicia[a-z]*|abertura do prazo)\b[^0-9;]{0,20}|\b(?:de|do dia|entre(?: os dias)?|periodo(?: de)?:?)\s+)$/
const ONLY_START = /\b(?:a partir|desde)\b[^0-9;]{0,20}$/
/** Between the days of a range. Without "de" or "entre" before it, "e" and a dash can be a list. */
const TO =
  /^[^0-9]{0,3}(?:(?:as )?\d{1,2}\s?(?:h|:)[\d\s]{0,3}(?:min|horas|h)?\s)?\s?(?:a|ate|ao)(?: as \d{1,2}[h:\d\s]{0,6}(?:min|horas)? d[eo])?\s?(?:o |ao )?(?:dia )?$/
const TO_OR_AND = /^\s?(?:as \d{1,2}[h:\d\s]{0,6})?\s?(?:e|-)\s?(?:o )?(?:dia )?$/
const BEFORE_REFERENCE =
  /\b(?:leis?|decretos?|portarias?|instruc[a-z]*|resoluc[a-z]*|edital|processo|pregao|concorrencia|dispensa|oficio|ata|memorando|itens|item|subitem|artigos?|arts?\.?|n[o°]?\.?|numero)\s?(?:(?:n[o°]?\.?|numero|federal|complementar|estadual|municipal|normativa)\s?)*(?:[0-9][0-9./-]*\s?,?\s?(?:de|do dia|datad[oa] de)\s)?$/
const CONTEXT = 100

/** What a day or a period stands for, by the words before it. */
function roleOf(
  folded: string,
  { start, end, time }: TimeToken,
  clause: Clause,
  times: readonly TimeToken[],
): Role {
  const before = folded.slice(Math.max(clause.start, start - CONTEXT), start)
  if (time.kind === 'periodo')
    return isTimeOfDay(time, before, folded.slice(end, end + CONTEXT)) ? 'referencia' : 'prazo'
  if (BEFORE_REFERENCE.test(before)) return 'referencia'
  if (isStart(folded, before, end, times)) return 'inicio'
  if (COUNTED_FROM.test(before)) return 'sessao'
  if (/\bate\b[^0-9;.]{0,20}$/.test(before)) return 'prazo'
  if (BEFORE_PUBLICATION.test(before)) return 'publicacao'
  return BEFORE_SESSION.test(before) ? 'sessao' : 'prazo'
}

/** The first day of a range. */
function isStart(folded: string, before: string, end: number, times: readonly TimeToken[]): boolean {
  if (ONLY_START.test(before)) return true
  const next = times.find(time => time.start >= end && time.time.kind !== 'periodo')
  if (!next || next.start > end + CONTEXT) return false
  const between = folded.slice(end, next.start)
  return TO.test(between) || (BEFORE_START.test(before) && TO_OR_AND.test(between))
}

const HOURS_BEFORE =
  /^\s?\)?,?\s?(?:\(?uteis\)?\s?)?(?:antes|anterior|de antecedencia|que antece|previas|da abertura|da sessao|antecedentes)/

/** "Até as 18 horas" is a time of day, "48 horas antes" is a period. */
function isTimeOfDay(time: Time, before: string, after: string): boolean {
  if (time.kind !== 'periodo' || time.unit !== 'horas') return false
  if (HOURS_BEFORE.test(after)) return false
  return (time.numbers[0] as number) < 24 || /\b(?:as|a|das)\s?$/.test(before) || /^\s?d[eo]\b/.test(after)
}

/** Acts beside one another, without a time in between, share their times. What is answered is not contested. */
function groupsOf(folded: string, acts: readonly ActToken[], times: readonly TimeToken[]): Group[] {
  const groups: { acts: Set<Act>; start: number; end: number }[] = []
  for (const { act, start, end } of acts) {
    const last = groups.at(-1)
    const between = last ? folded.slice(last.end, start) : ''
    const isNext =
      last === undefined ||
      times.some(time => time.start >= last.end && time.start < start) ||
      (act === 'resposta' && /,/.test(between))
    if (isNext) groups.push({ acts: new Set([act]), start, end })
    else {
      last.acts.add(act)
      last.end = end
    }
  }
  return groups.map(group => ({ ...group, acts: meant(group.acts) }))
}

function meant(acts: ReadonlySet<Act>): ReadonlySet<Act> {
  if (acts.has('resposta')) return new Set(['resposta'])
  if (acts.size > 1) return new Set([...acts].filter(act => act !== 'outro'))
  return acts
}

/** "3 dias úteis para impugnar", "04/12 (impugnações)". */
const LINK = /^[^;,]{0,60}?(?:\b(?:para|a fim de|visando)\b[^;,]{0,30}|\(\s?|:\s?)$/

/**
 * The group that a time belongs to: usually the one before it. But "3 dias úteis para impugnar e 2 para responder" has the
 * times first.
 */
function groupFor(
  folded: string,
  { start, end }: TimeToken,
  groups: readonly Group[],
  times: readonly TimeToken[],
): Group | null {
  const before = groups.findLast(group => group.end <= start) ?? null
  const after = groups.find(group => group.start >= end) ?? null
  if (after === null || before === null) return before ?? after
  const nextTime = times.find(time => time.start >= end)
  if (nextTime && nextTime.start < after.start) return before
  if (LINK.test(folded.slice(end, after.start))) return after
  return timesComeFirst(groups, times) ? after : before
}

/** Each group has a time of its own before it, and the last one none behind it. */
function timesComeFirst(groups: readonly Group[], times: readonly TimeToken[]): boolean {
  const [first, last] = [times[0], times.at(-1)]
  if (!first || !last || first.start > (groups[0] as Group).start) return false
  return last.start < (groups.at(-1) as Group).start
}

const AFTER_EVENT =
  /\b(?:apos|depois|a contar|contad[oa]s?|a partir|subsequentes?|seguintes?|posterior(?:es)?)\b/
const AHEAD_OF_EVENT =
  /\b(?:antes|anterior(?:es)?|antecede[a-z]*|antecedencia|preced[a-z]*|previ[a-z]*|antecipad[a-z]*|retroativ[a-z]*|regressiv[a-z]*|retro)\b/
const PUBLICATION = /\b(?:publicac|publicad|divulg|disponibiliz|veicul)/
const ZERO_HOUR =
  /\b(?:as?|ate)\s(?:0{1,2}\s?(?:h|:)\s?(?:00)?|zero hora|meia-?\s?noite)\s?(?:min|horas?|hs?)?\s?(?:\(?[a-z ]{0,25}\)?\s?)?d[eo](?: dia)?\s?$/

function readingsOf(
  plain: PlainText,
  bound: BoundTime,
  isNamed: boolean,
  all: readonly BoundTime[],
): Reading[] {
  const { time } = bound
  const about = { nomeado: isNamed, trecho: excerptOf(plain, bound) }
  if (time.kind === 'dia') {
    const before = plain.folded.slice(Math.max(0, bound.start - CONTEXT), bound.start)
    const dia = ZERO_HOUR.test(before) ? dayBefore(time.dia) : time.dia
    return [{ dia, ...about }]
  }
  if (time.kind === 'dia_mes') return [{ dia_mes: time.diaMes, ...about }]
  if (time.kind === 'dia_do_mes') return [{ dia_do_mes: time.diaDoMes, ...about }]
  const event = eventOf(plain.folded, bound, all)
  if (event === null) return []
  return time.numbers.flatMap((n): Reading[] => {
    if (time.unit === 'dias') {
      return [
        { n, unidade: 'uteis', sem_tipo: true, ...event, ...about },
        { n, unidade: 'corridos', ...event, ...about },
      ]
    }
    return [{ n, unidade: time.unit === 'horas_do_dia' ? 'horas' : time.unit, ...event, ...about }]
  })
}

/** Which event a period counts from; null if it is neither the session nor the publication. */
function eventOf(
  folded: string,
  { start, end, clause }: BoundTime,
  all: readonly BoundTime[],
): Pick<Reading, 'apos_publicacao' | 'base'> | null {
  const next = all.find(time => time.start >= end && time.role === 'prazo' && time.start < clause.end)
  const after = folded.slice(end, Math.min(clause.end, next?.start ?? clause.end))
  const dayOf = (role: Role, from: readonly BoundTime[]) => {
    const found = from.find(time => time.role === role && time.time.kind === 'dia')
    return found?.time.kind === 'dia' ? { base: found.time.dia } : {}
  }
  const inClause = all.filter(time => time.start >= end && time.start < clause.end)
  const around = `${folded.slice(Math.max(clause.start, start - CONTEXT / 2), start)} ${after}`
  if (AHEAD_OF_EVENT.test(after)) return dayOf('sessao', inClause)
  if (!AFTER_EVENT.test(after))
    return AFTER_EVENT.test(around) && !AHEAD_OF_EVENT.test(around)
      ? publicationIn(around, all, dayOf)
      : dayOf('sessao', inClause)
  return publicationIn(after, all, dayOf)
}

function publicationIn(
  words: string,
  all: readonly BoundTime[],
  dayOf: (role: Role, from: readonly BoundTime[]) => Pick<Reading, 'base'>,
): Pick<Reading, 'apos_publicacao' | 'base'> | null {
  return PUBLICATION.test(words) ? { apos_publicacao: true, ...dayOf('publicacao', all) } : null
}

function dayBefore(day: string): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) - 86_400_000).toISOString().slice(0, 10)
}

/** The clause, or what is around the time if it is long. */
function excerptOf({ shown }: PlainText, { start, end, clause }: BoundTime): string {
  const isLong = clause.end - clause.start > MAX_EXCERPT
  const from = isLong ? Math.max(clause.start, Math.min(start, end - MAX_EXCERPT + 60) - 60) : clause.start
  const to = Math.min(clause.end, from + MAX_EXCERPT)
  const text = shown.slice(from, to).toWellFormed().replace(/\s+/g, ' ').trim()
  return `${from > clause.start ? '…' : ''}${text}${to < clause.end ? '…' : ''}`
}

function distinct(readings: readonly Reading[]): Reading[] {
  const known = new Map(readings.map(reading => [JSON.stringify({ ...reading, trecho: '' }), reading]))
  return [...known.values()].slice(0, MAX_READINGS)
}
