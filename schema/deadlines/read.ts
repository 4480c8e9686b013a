import { type BoundTime, bindTimes } from './bind.ts'
import { type PlainText, plainText } from './plain_text.ts'
import { CONTEXT, hasLabel, isOverBeforeDay, isReference, type Role } from './roles.ts'
import { timetableAsLines } from './timetable.ts'
import { type Act, actsIn, impossibleTimesIn, timesIn } from './tokens.ts'

/**
 * One way to read the last day of an act in a text. Exactly one of `dia`, `dia_mes`, `dia_do_mes` and `n` is there. The day
 * follows from it, the session and the calendar (`schema/marts/prazos_calculados.sql`).
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
export function readDeadlines(text: string): Deadlines {
  const written = plainText(text)
  const found = timesIn(written.folded)
  const plain = timetableAsLines(written, found)
  const times = bindTimes(plain.folded, plain === written ? found : timesIn(plain.folded))
  const deadlines = times.filter(({ role }) => role === 'prazo')
  const unnamed = deadlines.filter(({ acts, isContinued }) => acts.size === 0 || isContinued)
  const isContestNamed = deadlines.some(({ acts }) => acts.has('impugnacao'))
  const readings = (act: Act) => {
    const named = times.filter(({ acts }) => acts.has(act))
    const read = (nomeado: boolean, chosen: readonly BoundTime[]) => distinct(plain, chosen, nomeado, times)
    return firstOf([
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
  if (times.length > 0 && actsIn(folded).some(({ act }) => act === 'impugnacao')) return true
  return impossibleTimesIn(folded).some(at => !isReference(folded.slice(Math.max(0, at - CONTEXT), at)))
}

function firstOf(sources: readonly (() => Reading[])[]): Reading[] {
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
    for (const day of daysOf(plain.folded, deadline, times)) {
      const key = JSON.stringify(day)
      if (!known.has(key))
        known.set(key, {
          ...day,
          ...looseness(plain.folded, deadline),
          nomeado,
          trecho: excerptOf(plain, deadline),
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
function daysOf(folded: string, deadline: BoundTime, times: readonly BoundTime[]): Day[] {
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
      const event = eventOf(folded, deadline, times)
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
function eventOf(
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
  const before = isAfterPeriod ? lastPartOf(nearby) : nearby
  const words = AFTER_EVENT.test(after) || AHEAD_OF_EVENT.test(after) ? after : `${before} ${after}`
  const isAfter = AFTER_EVENT.test(words) || OF_PUBLICATION.test(after)
  if (AHEAD_OF_EVENT.test(words) || !isAfter) return dayOf('sessao', later)
  if (PUBLICATION.test(words) || later.some(({ role }) => role === 'publicacao'))
    return { apos_publicacao: true, ...dayOf('publicacao', all) }
  // "3 dias úteis a partir de 24/11/2026"
  if (later[0]?.role === 'inicio') return { apos_publicacao: true, ...dayOf('inicio', later) }
  return COUNTED_FROM_SESSION.test(words) ? dayOf('sessao', later) : null
}

/** Returns the words after the last comma, or from the last act on. */
function lastPartOf(words: string): string {
  return words.slice(Math.max(words.lastIndexOf(',') + 1, actsIn(words).at(-1)?.start ?? 0))
}

function dayOf(role: Role, times: readonly BoundTime[]): Pick<Reading, 'base'> {
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
function excerptOf({ shown }: PlainText, { start, end, clause }: BoundTime): string {
  const isLong = clause.end - clause.start > MAX_EXCERPT
  const first = Math.min(start, end - MAX_EXCERPT + EXCERPT_BEFORE) - EXCERPT_BEFORE
  const from = isLong ? Math.max(clause.start, first) : clause.start
  const to = Math.min(clause.end, from + MAX_EXCERPT)
  const text = shown.slice(from, to).toWellFormed().replace(/\s+/g, ' ').trim()
  return `${from > clause.start ? '…' : ''}${text}${to < clause.end ? '…' : ''}`
}
