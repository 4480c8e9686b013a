import type { PlainText } from './plain_text.ts'
import { CONTEXT, isReference } from './roles.ts'
import { actsIn, type TimeToken } from './tokens.ts'

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
export function timetableAsLines(plain: PlainText, times: readonly TimeToken[]): PlainText {
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
  return actsIn(words).length > 0 || EVENT.test(words)
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
  const textOf = (text: string) =>
    parts.map(part => (typeof part === 'string' ? part : text.slice(part.start, part.end))).join('')
  return { shown: textOf(shown), folded: textOf(folded), isCut }
}
