import type { AnalysisDocument, Edital } from '#src/sandbox/world.ts'
import { isJson, isMoment, isScalar, LISTS, namesBelow, PARTS } from './contract_tables.ts'

/**
 * Brings equivalent documents into the same form: optional fields that are null are omitted; a time with an offset and
 * at most six decimals becomes an instant, any other stays text; fields that the contract does not name are omitted.
 * Depends only on the contract, not on the project's schema.
 */

type Fields = Readonly<Record<string, unknown>>

export function comparableNotice(edital: Edital): Fields {
  return fieldsOf(edital, 'Notice')
}

export function comparableAnalysis(analysis: AnalysisDocument): Fields {
  const parts = Object.entries(PARTS).map(([name, heading]) => [name, part(analysis[name], heading)])
  const lists = Object.entries(LISTS).map(([name, heading]) => [
    name,
    (analysis[name] as Fields[]).map(element => fieldsOf(element, heading)),
  ])
  // Of the overview, which is free-form, everything counts.
  return { ...Object.fromEntries([...parts, ...lists]), ...fieldsOf(analysis, 'Analysis') }
}

function part(value: unknown, heading: string): Fields | null {
  return value === null || value === undefined ? null : fieldsOf(value as Fields, heading)
}

/** The fields of the contract's table below a heading that have one value. */
function fieldsOf(object: Fields, heading: string): Fields {
  const names = namesBelow(heading, type => isScalar(type) || isJson(type))
  const present = names.filter(name => object[name] !== undefined && object[name] !== null)
  const times = namesBelow(heading, isMoment).map(name => [name, instant(object[name])])
  return { ...Object.fromEntries(present.map(name => [name, object[name]])), ...Object.fromEntries(times) }
}

/** Microseconds, or the text if it is not such a time. */
function instant(text: unknown): bigint | string | null {
  if (typeof text !== 'string') return null
  if (!/(Z|[+-]\d\d:\d\d)$/.test(text) || /\.\d{7}/.test(text)) return text
  return Temporal.Instant.from(text).epochNanoseconds / 1000n
}
