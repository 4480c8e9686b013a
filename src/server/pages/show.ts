import type { Fields } from '#schema/record.ts'
import { isDateTime, parseLocalTime, shiftToLocalTime } from '#schema/times.ts'
import { listTitles } from '#src/marts/labels.ts'
import {
  fitInLine,
  formatDistance,
  formatMoment,
  formatMoney,
  NONE,
  number,
} from '#src/present/text/format.ts'
import { type Html, html } from '#src/present/text/html.ts'
import { nameRisk, spellOut } from '#src/present/text/names.ts'

/** Values of documents, which come from strangers, in the form in which readers see them. */

export type ShownDocument = Readonly<Record<string, unknown>>

/** Longer than any text of a real notice. */
export const MAX_TEXT = 20_000
export const MAX_TITLE = 300
const DAY_MS = 24 * 3_600_000

export function showText(document: ShownDocument, name: string, maxCharacters: number): string | null {
  const value = document[name]
  return typeof value === 'string' ? fitInLine(value, maxCharacters) : null
}

/** More would take seconds in an analysis that consists of line breaks. */
const MAX_LINES = 200

/** Returns a text of the document with its line breaks; null if it has no such text. */
export function readParagraphs(document: ShownDocument, name: string, maxCharacters: number): string | null {
  const value = document[name]
  if (typeof value !== 'string') return null
  const all = value.slice(0, 2 * maxCharacters).split(/[\r\n\u2028\u2029]+/)
  const end = value.length > 2 * maxCharacters ? '…' : ''
  const lines = [...all.slice(0, MAX_LINES), all.slice(MAX_LINES).join(' ') + end]
  return (
    lines
      .map(one => fitInLine(one, maxCharacters))
      .filter(Boolean)
      .join('\n') || null
  )
}

/** Returns an amount in BRL. */
function amount(value: unknown): string {
  return typeof value === 'number' && Number.isFinite(value) ? formatMoney(value) : NONE
}

/** Returns the value of a notice: a zero usually stands for a secret budget. */
export function estimate(value: unknown): string {
  return value === 0 ? `${formatMoney(0)} (pode ser sigiloso)` : amount(value)
}

const UNIT_PRICE = new Intl.NumberFormat('pt-BR', {
  style: 'currency',
  currency: 'BRL',
  maximumFractionDigits: 6,
})

/** Formats a unit price with all its decimals: it often has four. */
export function formatUnitPrice(value: unknown): string {
  return typeof value === 'number' && Number.isFinite(value) ? UNIT_PRICE.format(value) : NONE
}

/** Four decimals; a smaller value keeps three digits, so that it is not shown as 0. */
const QUANTITY = new Intl.NumberFormat('pt-BR', {
  maximumFractionDigits: 4,
  maximumSignificantDigits: 3,
  roundingPriority: 'morePrecision',
})

export function formatQuantity(value: unknown): string {
  return typeof value === 'number' ? QUANTITY.format(value) : NONE
}

/** Returns a number that is a name: of an item or a lot. */
export function showOrdinal(value: unknown): string {
  return typeof value === 'number' ? String(value) : NONE
}

export function formatYesOrNo(value: unknown): string {
  return typeof value === 'boolean' ? (value ? 'Sim' : 'Não') : NONE
}

/** Returns a time of a notice; a text that is none is shown as it is. */
export function formatSession(value: unknown, timeZone: string): string {
  if (typeof value !== 'string') return NONE
  return isDateTime(value) ? formatMoment(value, timeZone) : (fitInLine(value, 40) ?? NONE)
}

/** Returns the day of an instant: `2026-12-31`. */
export function formatIsoDay(timeZone: string, instant: Date): string {
  return shiftToLocalTime(instant, timeZone).toISOString().slice(0, 10)
}

/** ` (em 5 dias)`; null if the session is over, or has no day. */
export function daysLeft(session: unknown, timeZone: string, today: string): Html | null {
  const local = typeof session === 'string' ? parseLocalTime(session, timeZone) : null
  if (local === null) return null
  const days = Math.floor(local.getTime() / DAY_MS) - Date.parse(today) / DAY_MS
  return days < 0 ? null : html` <b>(${formatDistance(days)})</b>`
}

/** Some analyses have thousands of items. */
export const MAX_ROWS = 500

/** Returns a note if a list is longer than what is shown. */
export function rest(count: number): Html | null {
  if (count <= MAX_ROWS) return null
  return html`<p class="more muted">Esta página mostra os primeiros ${MAX_ROWS} de ${number(count)}.</p>`
}

export function readPart(value: unknown): ShownDocument {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as ShownDocument) : {}
}

export function readList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

/** Deeper values, and further ones of a list, are left to the API. */
const MAX_DEPTH = 5
const MAX_ENTRIES = 200
const RISKS = ['risco_pagamento', 'payment_risk']
const MARGINS = ['margem_min', 'margem_max']
const PERCENT = new Intl.NumberFormat('pt-BR', { style: 'percent', maximumFractionDigits: 2 })
/** Amounts that real analyses have under these names. */
const AMOUNTS = /^(piso_salarial|valor|preco|custo|salario)(_|$)/
/** A code where a text could be: `grande_vulto`. */
const CODE = /^[a-z]+(?:_[a-z]+)+$/

/**
 * Returns the fields of a part of a document, those that the contract does not name as well.
 * @param fields of the contract, for their names and units.
 */
export function listFacts(part: ShownDocument, fields: Fields, timeZone: string): [string, string | null][] {
  const titles = new Map(listTitles(fields))
  return Object.entries(part)
    .slice(0, MAX_ENTRIES)
    .map(([name, value]) => {
      const { unit } = (fields[name] ?? {}) as { readonly unit?: string }
      const title = titles.get(name) ?? spellOut(name)
      if (RISKS.includes(name)) return [title, nameRisk(value) || null]
      if (typeof value !== 'number') return [title, writeFreeForm(value, timeZone)]
      if (name === 'valor_estimado') return [title, estimate(value)]
      if (MARGINS.includes(name)) return [title, share(value)]
      return [title, unit === 'BRL' ? amount(value) : formatQuantity(value)]
    })
}

/** Returns a margin or a confidence: real analyses have fractions, and the contract does not say so. */
export function share(value: number): string {
  return PERCENT.format(Math.abs(value) <= 1 ? value : value / 100)
}

/** Returns a value to which the contract gives no type: lists with semicolons, objects as `Prazo dias: 13, Locais: …`. */
export function writeFreeForm(value: unknown, timeZone: string, depth = 0): string | null {
  if (typeof value === 'boolean') return formatYesOrNo(value)
  if (typeof value === 'number') return formatQuantity(value)
  if (typeof value === 'string') return textInWords(value, timeZone)
  if (typeof value !== 'object' || value === null) return null
  if (depth === MAX_DEPTH) return '…'
  const isList = Array.isArray(value)
  const entries = Object.entries(value).slice(0, MAX_ENTRIES)
  const known = entries.flatMap(([name, one]) => {
    const isAmount = typeof one === 'number' && !isList && AMOUNTS.test(name)
    const words = isAmount ? amount(one) : writeFreeForm(one, timeZone, depth + 1)
    if (words === null) return []
    if (isList) return [words]
    const isNested = typeof one === 'object' && !Array.isArray(one)
    return [isNested ? `${spellOut(name)} (${words})` : `${spellOut(name)}: ${words}`]
  })
  return known.join(isList ? '; ' : ', ') || null
}

/** Writes a text; a time as a time. One in a year that is implausible for a notice, such as that of a law, stays as it is. */
function textInWords(value: string, timeZone: string): string | null {
  if (CODE.test(value)) return spellOut(value)
  const time = formatMoment(value, timeZone)
  return time === NONE ? fitInLine(value, MAX_TEXT) : time
}
