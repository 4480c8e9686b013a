import { fitInLine, formatDay, formatDayAndTime, formatPlural, NONE } from '#src/present/text/format.ts'
import { inUtc, localTime } from './calendar.ts'
import { republishedIn } from './card.ts'
import type { Notice, Picture } from './picture.ts'

/** How the report formats texts, so that its parts only need to give their figures. */

/** How far the report looks ahead, in days, today included. */
export const DAYS_AHEAD = 30
export const SOON = 7

/** A row's cells; null for an empty cell. */
type Row = readonly (string | null)[]

export function dayOf(local: Temporal.PlainDate | null): string {
  return formatDay(local && inUtc(local))
}

export function momentOf(instant: Date): string {
  return formatDayAndTime(inUtc(localTime(instant)))
}

export function lastDayOf({ today }: Picture): string {
  return dayOf(today.add({ days: DAYS_AHEAD - 1 }))
}

export function isSoon(distance: number): boolean {
  return distance >= 0 && distance < SOON
}

/** The non-empty parts, joined by `sign`; null if there are none. */
export function joined(parts: readonly (string | null | false)[], sign = ' '): string | null {
  return parts.filter(Boolean).join(sign) || null
}

/** The texts that contain a figure; other tests cover the rest. */
export function sentences(...texts: readonly (string | null | false)[]): string[] {
  return texts.flatMap(text => (text && /\d/.test(text) ? [oneLine(text)] : []))
}

export function table(caption: string, head: string, rows: readonly Row[]): string[] {
  const lines = rows.map(cells => oneLine(cells.map(cell => cell || NONE).join(' | ')))
  return [...sentences(caption), head, ...lines]
}

/** The line below a shortened list. */
export function more(count: number, one: string, many: string, where = ''): string[] {
  return count > 0 ? sentences(`… e mais ${formatPlural(count, one, many)}${where}.`) : []
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim()
}

/** Buyer, state and number, and whether it was published again. */
export function nameOf({ orgao, uf, numero, countsIn }: Notice): string | null {
  const name = fitInLine(orgao, 80) ?? 'Órgão não informado'
  return joined([name, fitInLine(uf, 30), fitInLine(numero, 30), republishedIn(countsIn)], ' · ')
}
