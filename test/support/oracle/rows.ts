import { fieldsBelow, isJson, isMoment, isScalar, LISTS, namesBelow, PARTS } from '../contract_tables.ts'
import { identifierOf } from './identifier.ts'
import { type Document, isObject, parsed, sameTokens } from './json.ts'
import { isCutJson, isCutOf } from './long_texts.ts'
import { microsOf } from './moments.ts'

/** A value of a column: an array means any of its values, `json` means equivalent JSON text. */
export type Expected = string | number | boolean | null | readonly bigint[] | { readonly json: unknown }
export type ExpectedRow = Readonly<Record<string, Expected>>

/** The row of `editais` for a notice, without columns that depend on the run. */
export function editalRow(document: Document): ExpectedRow {
  const { cnpj, year, sequence } = identifierOf(document.pncp_id)
  return {
    ...scalars(
      document,
      namesBelow('Notice', isScalar).filter(name => name !== 'id'),
    ),
    ...moments(document, namesBelow('Notice', isMoment)),
    orgao_cnpj: cnpj,
    pncp_ano: year,
    pncp_sequencial: sequence === null ? null : Number(sequence),
  }
}

/** The row of `analyses` for an analysis. */
export function analysisRow(document: Document): ExpectedRow {
  const part = (name: string) => (isObject(document[name]) ? (document[name] as Document) : {})
  return {
    ...scalars(document, ['analysis_level', 'analyzed']),
    ...prefixed('verdict_', valuesOf(part('verdict'), PARTS.verdict)),
    ...prefixed('overview_', overviewOf(part('overview'))),
    overview: json(document.overview),
    ...prefixed('pricing_', valuesOf(part('pricing'), PARTS.pricing)),
    ...prefixed('orgao_report_', valuesOf(part('orgao_report'), PARTS.orgao_report)),
    operational: json(document.operational),
  }
}

/** An overview is free-form: flags have to be booleans, everything else is text as worded. */
function overviewOf(overview: Document): ExpectedRow {
  return Object.fromEntries(
    fieldsBelow(PARTS.overview).map(({ name, type }) => {
      const value = overview[name]
      if (type === 'boolean') return [name, typeof value === 'boolean' ? value : null]
      return [name, asWorded(value)]
    }),
  )
}

export type ChildTable = keyof typeof LISTS
export const CHILD_TABLES = Object.keys(LISTS) as readonly ChildTable[]

/** The rows of a child table for an analysis, in order. */
export function childRows(document: Document, table: ChildTable): ExpectedRow[] {
  return (document[table] as readonly Document[]).map((element, index) => ({
    ordinal: index + 1,
    ...valuesOf(element, LISTS[table]),
  }))
}

/** The values of an object's fields, as in the contract's table below a heading. */
function valuesOf(object: Document, heading: string): ExpectedRow {
  const texts = namesBelow(heading, isJson).map(name => [name, json(object[name])])
  return { ...scalars(object, namesBelow(heading, isScalar)), ...Object.fromEntries(texts) }
}

function scalars(document: Document, names: readonly string[]): ExpectedRow {
  return Object.fromEntries(names.map(name => [name, plain(own(document, name))]))
}

function moments(document: Document, names: readonly string[]): ExpectedRow {
  return Object.fromEntries(
    names.map(name => {
      const written = own(document, name)
      return [name, typeof written === 'string' ? microsOf(written) : null]
    }),
  )
}

function own(document: Document, name: string): unknown {
  return Object.hasOwn(document, name) ? document[name] : undefined
}

function prefixed(prefix: string, row: ExpectedRow): ExpectedRow {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [prefix + name, value]))
}

/** SQL does not distinguish -0 in comparisons, and JSON.stringify writes it as 0. */
function plain(value: unknown): Expected {
  if (value === undefined || value === null) return null
  return value === 0 ? 0 : (value as Expected)
}

/** A number beyond a double's range becomes null in JSON. */
function json(value: unknown): Expected {
  const isNull = value === undefined || value === null || value === Infinity || value === -Infinity
  return isNull ? null : { json: value }
}

/** Free text: a string as it is, anything else as JSON text. */
function asWorded(value: unknown): Expected {
  return typeof value === 'string' ? value : json(value)
}

/** The first difference between a row and the expected row, as text; null if there is none. */
export function difference(expected: ExpectedRow, actual: Readonly<Record<string, unknown>>): string | null {
  const isLong = textBytes(expected) > ROW_BYTES
  for (const [name, value] of Object.entries(expected)) {
    if (!fits(value, actual[name]) && !(isLong && fitsCut(value, actual[name]))) {
      const shown = (each: unknown) =>
        JSON.stringify(each, (_key, part) => (typeof part === 'bigint' ? String(part) : part))?.slice(0, 500)
      return `${name} is ${shown(actual[name])}, not ${shown(value)}`
    }
  }
  return null
}

const ROW_BYTES = 32 * 1024

function textBytes(row: ExpectedRow): number {
  return Object.values(row).reduce<number>((sum, value) => {
    if (typeof value === 'string') return sum + Buffer.byteLength(value)
    const isJson = typeof value === 'object' && value !== null && 'json' in value
    return sum + (isJson ? Buffer.byteLength(JSON.stringify(value.json)) : 0)
  }, 0)
}

/** In a row with more than a table can carry, a text may be a beginning. */
function fitsCut(expected: Expected, actual: unknown): boolean {
  if (typeof expected === 'string') return isCutOf(expected, actual)
  if (typeof expected !== 'object' || expected === null || !('json' in expected)) return false
  return typeof actual === 'string' && isCutJson(expected.json, parsed(actual) ?? actual)
}

function fits(expected: Expected, actual: unknown): boolean {
  if (expected === null || typeof expected !== 'object') return expected === actual
  if (Array.isArray(expected)) {
    return (typeof actual === 'bigint' || typeof actual === 'number') && expected.includes(BigInt(actual))
  }
  if (typeof actual !== 'string') return false
  const value = (expected as { json: unknown }).json
  return (
    actual === JSON.stringify(value) ||
    sameTokens(actual, JSON.stringify(value)) ||
    sameDoubles(actual, value)
  )
}

/** DuckDB formats doubles differently when it extracts a value from a free-form object. */
function sameDoubles(actual: string, value: unknown): boolean {
  const read = parsed(actual)
  return read !== undefined && JSON.stringify(read) === JSON.stringify(value)
}
