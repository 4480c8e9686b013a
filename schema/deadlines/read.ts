import { type BoundTime, bindTimes } from './bind.ts'
import { type PlainText, plainText } from './plain_text.ts'
import { CONTEXT, isOverBeforeDay, type Role } from './roles.ts'
import type { Act } from './tokens.ts'

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
  const times = bindTimes(plain.folded)
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

/** A time that names no act stands for the one that the field is about, and for questions if no clause is about contesting. */
function isUnnamed({ acts, isContinued, role }: BoundTime, all: readonly BoundTime[], act: Act): boolean {
  if (role !== 'prazo') return false
  if (act !== 'impugnacao' && all.some(time => time.acts.has('impugnacao'))) return false
  return acts.size === 0 || isContinued
}

const AFTER_EVENT =
  /\b(?:apos|depois|a contar|contad[oa]s?|a partir|subsequentes?|seguintes?|posterior(?:es)?)\b/
const AHEAD_OF_EVENT =
  /\b(?:antes|anterior(?:es)?|antecede[a-z]*|antecedencia|preced[a-z]*|previ[a-z]*|antecipad[a-z]*|retroativ[a-z]*|regressiv[a-z]*|retro)\b/
const PUBLICATION = /\b(?:publicac|publicad|divulg|disponibiliz|veicul)/
function readingsOf(
  plain: PlainText,
  bound: BoundTime,
  isNamed: boolean,
  all: readonly BoundTime[],
): Reading[] {
  const { time } = bound
  const about = { nomeado: isNamed, trecho: excerptOf(plain, bound) }
  if (time.kind === 'dia') {
    const dia = isOverBeforeDay(plain.folded, bound.clause, bound.index) ? dayBefore(time.dia) : time.dia
    return [{ dia, ...about }]
  }
  if (time.kind === 'dia_mes') return [{ dia_mes: time.diaMes, ...about }]
  if (time.kind === 'dia_do_mes') return [{ dia_do_mes: time.diaDoMes, ...about }]
  if (time.kind === 'mesmo') return []
  const event = eventOf(plain.folded, bound, all)
  if (event === null) return []
  return time.numbers.flatMap((n): Reading[] => {
    if (time.unit === 'dias') {
      return [
        { n, unidade: 'uteis', sem_tipo: true, ...event, ...about },
        { n, unidade: 'corridos', ...event, ...about },
      ]
    }
    return [{ n, unidade: time.unit, ...event, ...about }]
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
