import { titlesOf } from '#schema/labels.ts'
import type { Fields } from '#schema/record.ts'
import { formatMoment, line, NONE } from '#src/present/text/format.ts'
import { nameRisk, spellOut } from '#src/present/text/names.ts'
import { amount, estimate, MAX_TEXT, quantity, type ShownDocument, yesOrNo } from './show.ts'

/** Deeper values, and further ones of a list, are left to the API. */
const MAX_DEPTH = 5
const MAX_ENTRIES = 200
const RISKS = ['risco_pagamento', 'payment_risk']

/**
 * Returns the fields of a part of a document, those that the contract does not name as well.
 * @param fields of the contract, for their names and units.
 */
export function listFacts(part: ShownDocument, fields: Fields, timeZone: string): [string, string | null][] {
  const titles = new Map(titlesOf(fields))
  return Object.entries(part)
    .slice(0, MAX_ENTRIES)
    .map(([name, value]) => {
      const { unit } = (fields[name] ?? {}) as { readonly unit?: string }
      const title = titles.get(name) ?? spellOut(name)
      if (RISKS.includes(name)) return [title, nameRisk(value) || null]
      if (typeof value !== 'number') return [title, writeFreeForm(value, timeZone)]
      if (name === 'valor_estimado') return [title, estimate(value)]
      return [title, unit === 'BRL' ? amount(value) : quantity(value)]
    })
}

/** Returns a value to which the contract gives no type: lists with semicolons, objects as `Prazo dias: 13, Locais: …`. */
export function writeFreeForm(value: unknown, timeZone: string, depth = 0): string | null {
  if (typeof value === 'boolean') return yesOrNo(value)
  if (typeof value === 'number') return quantity(value)
  if (typeof value === 'string') return textInWords(value, timeZone)
  if (typeof value !== 'object' || value === null) return null
  if (depth === MAX_DEPTH) return '…'
  const isList = Array.isArray(value)
  const entries = Object.entries(value).slice(0, MAX_ENTRIES)
  const known = entries.flatMap(([name, one]) => {
    const words = writeFreeForm(one, timeZone, depth + 1)
    if (words === null) return []
    if (isList) return [words]
    const isNested = typeof one === 'object' && !Array.isArray(one)
    return [isNested ? `${spellOut(name)} (${words})` : `${spellOut(name)}: ${words}`]
  })
  return known.join(isList ? '; ' : ', ') || null
}

/** Writes a text; a time as a time. One in a year that is implausible for a notice, such as that of a law, stays as it is. */
function textInWords(value: string, timeZone: string): string | null {
  const time = formatMoment(value, timeZone)
  return time === NONE ? line(value, MAX_TEXT) : time
}
