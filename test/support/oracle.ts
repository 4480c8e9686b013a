import { isUtf8 } from 'node:buffer'
import {
  type ContractField,
  fieldsBelow,
  isJson,
  isMoment,
  isScalar,
  LISTS,
  namesBelow,
  PARTS,
} from './contract_tables.ts'

/*
 * The expected result for a document, by the contract (docs/contract.md) and by the rules for deviations
 * (docs/internals/fetch.md#validation). It shares no code with `src/` or `schema/`: if the two differ, one of them is
 * wrong.
 */

type Kind = 'text' | 'number' | 'integer' | 'boolean' | 'moment' | 'id'

type Spec =
  | { readonly is: Kind; readonly words?: readonly string[] }
  | { readonly is: 'object'; readonly members: Members }
  | { readonly is: 'list'; readonly each: Spec }
  /** Any value is kept; another kind, or a member that is not listed, is reported. */
  | { readonly is: 'free'; readonly kind: 'object' | 'text'; readonly members?: Members }

/** Names of required members end in `!`. */
type Members = Readonly<Record<string, Spec>>

const KINDS: Readonly<Record<string, Kind>> = {
  string: 'text',
  'string, enum': 'text',
  'string, date-time': 'moment',
  number: 'number',
  'number (double)': 'number',
  integer: 'integer',
  boolean: 'boolean',
}

/** The members of the object whose fields are in the contract's table below a heading. */
function membersBelow(heading: string): Members {
  // Any value fits a field without a type.
  const typed = fieldsBelow(heading).filter(({ type }) => type !== 'any')
  return Object.fromEntries(
    typed.map(field => [field.presence === 'always' ? `${field.name}!` : field.name, specOf(field)]),
  )
}

function specOf({ name, type, values }: ContractField): Spec {
  if (name === 'id') return { is: 'id' }
  if (name in LISTS) {
    return { is: 'list', each: { is: 'object', members: membersBelow(LISTS[name as keyof typeof LISTS]) } }
  }
  if (type === 'array of string') return { is: 'list', each: { is: 'free', kind: 'text' } }
  const members = name in PARTS ? membersBelow(PARTS[name as keyof typeof PARTS]) : undefined
  if (type === 'object (free-form)') return { is: 'free', kind: 'object', ...(members && { members }) }
  if (members) return { is: 'object', members }
  const kind = KINDS[type]
  if (kind === undefined) throw new Error(`docs/contract.md: ${name} has the unknown type ${type}`)
  return { is: kind, ...(values.length > 0 && { words: values }) }
}

const MEMBERS = { notice: membersBelow('Notice'), analysis: membersBelow('Analysis') }

/** A document may have at most 100 levels of brackets. */
const MAX_LEVELS = 100

export type Root = 'notice' | 'analysis'
export type Document = Record<string, unknown>

export type Judgement =
  /** Any of these places is a correct location of the fault. */
  | { readonly usable: false; readonly faults: ReadonlySet<string> }
  | {
      readonly usable: true
      /** Strings are well formed, wrong types null, date-times as written. */
      readonly document: Document
      /** `<kind> <path>` of every deviation from the contract. */
      readonly drift: ReadonlySet<string>
      /** Whether the document holds everything in the bytes. */
      readonly whole: boolean
    }

/** @param expectedId the requested notice; null if the document itself identifies it. */
export function judge(bytes: Buffer, root: Root, expectedId: string | null): Judgement {
  const sent = new TextDecoder('utf-8').decode(bytes)
  const value = parsed(sent)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return unusable('$')
  if (levels(value, 0) > MAX_LEVELS) return unusable('$')
  const found: Found = { faults: new Set(), drift: new Set(), nulled: false }
  const document = wellFormed(value) as Document
  checkMembers(document, MEMBERS[root], { exact: '', name: root, open: false }, found)
  if (expectedId !== null && document.id !== expectedId) found.faults.add('id')
  if (found.faults.size > 0) return { usable: false, faults: found.faults }
  const whole = !found.nulled && isUtf8(bytes) && sameTokens(sent, JSON.stringify(document))
  return { usable: true, document, drift: found.drift, whole }
}

function unusable(place: string): Judgement {
  return { usable: false, faults: new Set([place]) }
}

function parsed(sent: string): unknown {
  try {
    return JSON.parse(sent)
  } catch {
    return undefined
  }
}

/** Levels of brackets; stops counting beyond the limit, so that a deep document cannot overflow the stack. */
function levels(value: unknown, above: number): number {
  if (typeof value !== 'object' || value === null) return above
  if (above > MAX_LEVELS) return above
  return Object.values(value).reduce<number>(
    (most, each) => Math.max(most, levels(each, above + 1)),
    above + 1,
  )
}

function wellFormed(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed()
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(wellFormed)
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [key.toWellFormed(), wellFormed(each)]),
  )
}

type Found = { readonly faults: Set<string>; readonly drift: Set<string>; nulled: boolean }
/** The place in this document, its name in reports, and whether unknown members are allowed there. */
type Place = { readonly exact: string; readonly name: string; readonly open: boolean }

function checkMembers(object: Document, members: Members, place: Place, found: Found): void {
  const known = new Set<string>()
  for (const [declared, spec] of Object.entries(members)) {
    const name = declared.replace('!', '')
    known.add(name)
    const at = {
      exact: place.exact ? `${place.exact}.${name}` : name,
      name: `${place.name}.${name}`,
      open: place.open,
    }
    const value = Object.hasOwn(object, name) ? object[name] : undefined
    if (value === undefined || value === null) {
      if (name !== declared) found.faults.add(at.exact)
    } else if (!check(value, spec, at, found)) {
      found.drift.add(reported('wrong_type', at.name))
      if (name !== declared) found.faults.add(at.exact)
      else if (!place.open) {
        object[name] = null
        found.nulled = true
      }
    }
  }
  if (place.open) return
  for (const name of Object.keys(object)) {
    if (!known.has(name)) found.drift.add(reported('unknown_field', `${place.name}.${name}`))
  }
}

/** False if the value as a whole violates the contract. */
function check(value: unknown, spec: Spec, at: Place, found: Found): boolean {
  if (spec.is === 'list') {
    if (!Array.isArray(value)) {
      found.faults.add(at.exact)
      return true
    }
    for (const [index, each] of value.entries()) {
      const here = { exact: `${at.exact}[${index}]`, name: `${at.name}[]`, open: false }
      if (!check(each, spec.each, here, found)) found.faults.add(here.exact)
    }
    return true
  }
  if (spec.is === 'free') {
    const fits = spec.kind === 'text' ? typeof value === 'string' : isObject(value)
    if (!fits) found.drift.add(reported('wrong_type', at.name))
    else if (spec.members) checkMembers(value as Document, spec.members, { ...at, open: true }, found)
    return true
  }
  if (spec.is === 'object') {
    if (isObject(value)) checkMembers(value, spec.members, { ...at, open: false }, found)
    return isObject(value)
  }
  if (spec.words && typeof value === 'string' && !spec.words.includes(value)) {
    found.drift.add(reported('unknown_enum', at.name))
  }
  return isOf(spec.is, value)
}

function isOf(kind: Kind, value: unknown): boolean {
  if (kind === 'text') return typeof value === 'string'
  if (kind === 'number') return Number.isFinite(value)
  if (kind === 'integer') return Number.isSafeInteger(value)
  if (kind === 'boolean') return typeof value === 'boolean'
  if (kind === 'moment') return typeof value === 'string' && microsOf(value) !== null
  return typeof value === 'string' && isPlainId(value)
}

function isPlainId(id: string): boolean {
  if (id === '.' || id === '..' || id.length === 0 || id.length > 200) return false
  return Array.from(id).every(sign =>
    'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~:@+=-'.includes(sign),
  )
}

function isObject(value: unknown): value is Document {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function reported(kind: string, path: string): string {
  return `${kind} ${path.slice(0, 200).toWellFormed()}`
}

const MOMENT =
  /^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,18}))?)?\s?([Zz]|[+-]\d\d(?::?\d\d)?)?)?$/
const LOCAL = 'America/Sao_Paulo'
const known = new Map<string, readonly bigint[] | null>()

/**
 * Microseconds since 1970. Two values if the clocks showed the local time twice, or skipped it: both are valid.
 * Null if the text is not a moment.
 */
export function microsOf(written: string): readonly bigint[] | null {
  let micros = known.get(written)
  if (micros === undefined) {
    if (known.size > 10_000) known.clear()
    micros = readMoment(written)
    known.set(written, micros)
  }
  return micros
}

function readMoment(written: string): readonly bigint[] | null {
  const [matched, year, month, day, hour = 0, minute = 0, second = 0, fraction = '', offset] =
    MOMENT.exec(written) ?? []
  if (matched === undefined || Number(year) === 0) return null
  const parts = { year, month, day, hour, minute, second }
  const numbers = Object.fromEntries(Object.entries(parts).map(([name, part]) => [name, Number(part)]))
  let local: Temporal.PlainDateTime
  try {
    local = Temporal.PlainDateTime.from(numbers as unknown as Temporal.PlainDateTimeLike, {
      overflow: 'reject',
    })
  } catch {
    return null
  }
  const beyond = BigInt(fraction.slice(0, 6).padEnd(6, '0'))
  const inZone = (zone: string, disambiguation: 'earlier' | 'later') =>
    local.toZonedDateTime(zone, { disambiguation }).epochNanoseconds / 1000n + beyond
  if (offset === undefined) return [inZone(LOCAL, 'later'), inZone(LOCAL, 'earlier')]
  if (/z/i.test(offset)) return [inZone('UTC', 'later')]
  const [hours, minutes] = [Number(offset.slice(1, 3)), Number(offset.slice(3).replace(':', '') || 0)]
  if (hours > 15 || minutes > 59) return null
  const minutesAhead = BigInt((hours * 60 + minutes) * (offset.startsWith('-') ? -1 : 1))
  return [inZone('UTC', 'later') - minutesAhead * 60_000_000n]
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[-+.0-9eE]+|true|false|null|[{}[\]:,]/g

/** Whether two valid JSON texts are equivalent, including duplicates, their order, and every digit. */
function sameTokens(a: string, b: string): boolean {
  if (a === b) return true
  const [left, right] = [a.match(TOKEN) ?? [], b.match(TOKEN) ?? []]
  return (
    left.length === right.length &&
    left.every((token, i) => token === right[i] || meant(token) === meant(right[i] ?? ''))
  )
}

function meant(token: string): string {
  if (token.startsWith('"')) return JSON.stringify(JSON.parse(token))
  return /^[-\d]/.test(token) ? exact(token) : token
}

/** The sign, the digits without leading and trailing zeros, and the power of ten of the last digit. */
function exact(token: string): string {
  const [, sign, whole = '', fraction = '', power = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/.exec(token) ?? []
  const digits = (whole + fraction).replace(/^0+/, '')
  const significant = digits.replace(/0+$/, '')
  if (significant === '') return '0'
  const last = BigInt(power) - BigInt(fraction.length) + BigInt(digits.length - significant.length)
  return `${sign}${significant}e${last}`
}

/** A value of a column: an array means any of its values, `json` means equivalent JSON text. */
export type Expected = string | number | boolean | null | readonly bigint[] | { readonly json: unknown }
export type ExpectedRow = Readonly<Record<string, Expected>>

/** The row of `editais` for a notice, without columns that depend on the run. */
export function editalRow(document: Document): ExpectedRow {
  const [, cnpj = null, year, sequence] =
    /^(\d{14})-(\d{4})-(\d+)$/.exec(String(document.pncp_id)) ?? ([] as string[])
  const inRange = sequence !== undefined && BigInt(sequence) < 2n ** 63n
  return {
    ...scalars(
      document,
      namesBelow('Notice', isScalar).filter(name => name !== 'id'),
    ),
    ...moments(document, namesBelow('Notice', isMoment)),
    orgao_cnpj: cnpj,
    pncp_ano: year === undefined ? null : Number(year),
    pncp_sequencial: inRange ? Number(sequence) : null,
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
  for (const [name, value] of Object.entries(expected)) {
    if (!fits(value, actual[name])) {
      const shown = (each: unknown) =>
        JSON.stringify(each, (_key, part) => (typeof part === 'bigint' ? String(part) : part))?.slice(0, 500)
      return `${name} is ${shown(actual[name])}, not ${shown(value)}`
    }
  }
  return null
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
