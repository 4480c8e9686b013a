import {
  DuckDBArrayType,
  type DuckDBBlobValue,
  DuckDBDateValue,
  DuckDBListType,
  DuckDBMapType,
  type DuckDBMapValue,
  DuckDBStructType,
  DuckDBTimestampMillisecondsValue,
  DuckDBTimestampNanosecondsValue,
  DuckDBTimestampSecondsValue,
  DuckDBTimestampTZValue,
  DuckDBTimestampValue,
  type DuckDBType,
  DuckDBTypeId,
  DuckDBUnionType,
  type DuckDBUnionValue,
  type DuckDBValue,
  type DuckDBValueConverter,
  type Json,
  JsonDuckDBValueConverter,
} from '@duckdb/node-api'

/** The text of one value; null only for a NULL that the form writes as nothing. */
export type WriteValue = (value: DuckDBValue, type: DuckDBType) => string | null
type Convert = DuckDBValueConverter<Json>

const MICROS_PER_SECOND = 1_000_000n
/** Temporal's instants end a little before DuckDB's. No offset changes out there. */
const MAX_INSTANT_MICROS = 8_640_000_000_000_000_000n
/** DuckDB writes a DOUBLE below or above these powers of ten with an exponent. */
const PLAIN_POWERS = { least: -4, most: 15 }
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).toUpperCase().padStart(2, '0'))
/** Every FLOAT can be read back from this many digits. */
const MAX_FLOAT_DIGITS = 9

/**
 * Values as `CAST(x AS VARCHAR)` writes them, but nested values as JSON.
 * @param timeZone of the session, for TIMESTAMPTZ: an IANA name.
 */
export function textWriter(timeZone: string): WriteValue {
  const convert = converterIn(timeZone)
  return (value, type) => {
    if (value === null || typeof value === 'string') return value
    const converted = convert(value, type, convert)
    if (converted === null || typeof converted === 'string') return converted
    return JSON.stringify(converted)
  }
}

/**
 * Values as JSON: numbers with all their digits, booleans and NULL as such, nested values and values of the type JSON
 * as arrays and objects. All others are strings with the same text as above, also the numbers `nan` and `inf`.
 */
export function jsonWriter(timeZone: string): WriteValue {
  const convert = converterIn(timeZone)
  return (value, type) => JSON.stringify(convert(value, type, convert))
}

/** Returns true for the types of numbers. */
export function isNumeric({ typeId }: DuckDBType): boolean {
  return NUMERIC.includes(typeId)
}

/** Returns true for the type of `row(1, 2)`: of fields without distinct names, the library would read only the last. */
export function hidesFields(type: DuckDBType): boolean {
  if (type instanceof DuckDBListType || type instanceof DuckDBArrayType) return hidesFields(type.valueType)
  if (type instanceof DuckDBMapType) return hidesFields(type.keyType) || hidesFields(type.valueType)
  if (type instanceof DuckDBUnionType) return type.memberTypes.some(hidesFields)
  if (!(type instanceof DuckDBStructType)) return false
  const names = new Set(type.entryNames)
  return names.size < type.entryCount || names.has('__proto__') || type.entryTypes.some(hidesFields)
}

/** Creates a converter to JSON, like the library's except for the types below. */
function converterIn(timeZone: string): Convert {
  const own: Partial<Record<DuckDBTypeId, Convert>> = { ...OWN }
  const offsetSeconds = offsetsOf(timeZone)
  own[DuckDBTypeId.TIMESTAMP_TZ] = value =>
    value instanceof DuckDBTimestampTZValue ? zonedText(value, offsetSeconds) : null
  return (value, type, convert) =>
    value === null ? null : (own[type.typeId] ?? JsonDuckDBValueConverter)(value, type, convert)
}

const exact: Convert = value => exactNumber(String(value))
const time: Convert = value => timeText(value)

/** The library writes these as text, as an object of its own, or with digits that are not DuckDB's. */
const OWN: Partial<Record<DuckDBTypeId, Convert>> = {
  [DuckDBTypeId.BIGINT]: exact,
  [DuckDBTypeId.UBIGINT]: exact,
  [DuckDBTypeId.HUGEINT]: exact,
  [DuckDBTypeId.UHUGEINT]: exact,
  [DuckDBTypeId.BIGNUM]: exact,
  [DuckDBTypeId.DECIMAL]: exact,
  [DuckDBTypeId.FLOAT]: value => floatingNumber(shortestFloat(Number(value))),
  [DuckDBTypeId.DOUBLE]: value => floatingNumber(Number(value)),
  [DuckDBTypeId.DATE]: time,
  [DuckDBTypeId.TIMESTAMP]: time,
  [DuckDBTypeId.TIMESTAMP_S]: time,
  [DuckDBTypeId.TIMESTAMP_MS]: time,
  [DuckDBTypeId.TIMESTAMP_NS]: time,
  [DuckDBTypeId.BLOB]: value => blobText((value as DuckDBBlobValue).bytes),
  [DuckDBTypeId.INTERVAL]: value => String(value),
  [DuckDBTypeId.VARCHAR]: (value, { alias }) => (alias === 'JSON' ? parsed(String(value)) : String(value)),
  [DuckDBTypeId.MAP]: (value, type, convert) =>
    mapObject(value as DuckDBMapValue, type as DuckDBMapType, convert),
  [DuckDBTypeId.UNION]: (value, type, convert) => {
    const { tag, value: member } = value as DuckDBUnionValue
    return { [tag]: convert(member, (type as DuckDBUnionType).memberTypeForTag(tag), convert) }
  },
}

/** Writes bytes as text (`\xAAb`): all but printable ASCII in hexadecimal, and the backslash, which the library leaves. */
function blobText(bytes: Uint8Array): string {
  const texts = Array.from(bytes, byte => {
    const character = String.fromCharCode(byte)
    return /[ -~]/.test(character) && !/["'\\]/.test(character) ? character : `\\x${HEX[byte]}`
  })
  return texts.join('')
}

/** Converts a map to an object (`{"k":1}`); keys that are not text as their text. */
function mapObject(
  { entries }: DuckDBMapValue,
  { keyType, valueType }: DuckDBMapType,
  convert: Convert,
): Json {
  const keyText = (key: DuckDBValue) => {
    const converted = convert(key, keyType, convert)
    return typeof converted === 'string' ? converted : JSON.stringify(converted)
  }
  return Object.fromEntries(
    entries.map(({ key, value }) => [keyText(key), convert(value, valueType, convert)]),
  )
}

const NUMERIC: readonly DuckDBTypeId[] = [
  ...[DuckDBTypeId.TINYINT, DuckDBTypeId.SMALLINT, DuckDBTypeId.INTEGER, DuckDBTypeId.BIGINT],
  ...[DuckDBTypeId.UTINYINT, DuckDBTypeId.USMALLINT, DuckDBTypeId.UINTEGER, DuckDBTypeId.UBIGINT],
  ...[DuckDBTypeId.HUGEINT, DuckDBTypeId.UHUGEINT, DuckDBTypeId.BIGNUM],
  ...[DuckDBTypeId.DECIMAL, DuckDBTypeId.FLOAT, DuckDBTypeId.DOUBLE],
]

function exactNumber(text: string): Json {
  const number = Number(text)
  return String(number) === text ? number : JSON.rawJSON(text)
}

/** Writes a floating-point number: `1.0`, `0.1`, `1e+20`, `1.5e-07`; a string for `nan` and `inf`. */
function floatingNumber(number: number): Json {
  if (Number.isNaN(number)) return 'nan'
  if (!Number.isFinite(number)) return number > 0 ? 'inf' : '-inf'
  const [digits = '', power = ''] = number.toExponential().split('e')
  const isPlain = number === 0 || (Number(power) >= PLAIN_POWERS.least && Number(power) <= PLAIN_POWERS.most)
  if (!isPlain) return JSON.rawJSON(`${digits}e${power.replace(/^([+-])(\d)$/, '$10$2')}`)
  if (!Number.isInteger(number)) return number
  return JSON.rawJSON(`${Object.is(number, -0) ? '-0' : number}.0`)
}

/** Returns the number with the fewest digits that is this FLOAT: 0.1 instead of 0.10000000149011612. */
function shortestFloat(float: number): number {
  for (let digits = 1; digits < MAX_FLOAT_DIGITS; digits += 1) {
    const shorter = Number(float.toPrecision(digits))
    if (Math.fround(shorter) === float) return shorter
  }
  return Number(float.toPrecision(MAX_FLOAT_DIGITS))
}

function timeText(value: DuckDBValue): string {
  if (value instanceof DuckDBDateValue) return finiteText(value, value.days)
  if (value instanceof DuckDBTimestampValue) return finiteText(value, value.micros)
  if (value instanceof DuckDBTimestampSecondsValue) return finiteText(value, value.seconds)
  if (value instanceof DuckDBTimestampMillisecondsValue) return finiteText(value, value.millis)
  if (value instanceof DuckDBTimestampNanosecondsValue) return finiteText(value, value.nanos)
  return String(value)
}

/** Returns a time as text, also infinities and 1 BC: the library does not know all infinities, and calls that year 0. */
function finiteText(value: { readonly isFinite: boolean }, units: number | bigint): string {
  if (!value.isFinite) return units > 0 ? 'infinity' : '-infinity'
  return String(value).replace(/^0000(-\d\d-\d\d)/, '0001$1 (BC)')
}

type OffsetSeconds = (micros: bigint) => number

/** Offsets of a zone by instant. A zone that only DuckDB knows counts as UTC. */
function offsetsOf(timeZone: string): OffsetSeconds {
  const zonedAt = (epochMicros: bigint) =>
    Temporal.Instant.fromEpochNanoseconds(epochMicros * 1000n).toZonedDateTimeISO(timeZone)
  try {
    zonedAt(0n)
  } catch {
    return () => 0
  }
  if (zonedAt(0n).timeZoneId === 'UTC') return () => 0
  return micros => {
    const limited =
      micros > MAX_INSTANT_MICROS
        ? MAX_INSTANT_MICROS
        : micros < -MAX_INSTANT_MICROS
          ? -MAX_INSTANT_MICROS
          : micros
    return zonedAt(limited).offsetNanoseconds / 1e9
  }
}

/** Writes local time and offset: `2026-12-10 09:00:00-03`. */
function zonedText(value: DuckDBTimestampTZValue, offsetSeconds: OffsetSeconds): string {
  if (!value.isFinite) return finiteText(value, value.micros)
  const seconds = offsetSeconds(value.micros)
  const local = new DuckDBTimestampValue(value.micros + BigInt(seconds) * MICROS_PER_SECOND)
  // DuckDB leaves out the seconds that offsets had before 1914.
  const minutes = Math.trunc(Math.abs(seconds) / 60)
  const [hour, minute] = [Math.trunc(minutes / 60), minutes % 60].map(part => String(part).padStart(2, '0'))
  const offset = `${seconds < 0 ? '-' : '+'}${hour}${minute === '00' ? '' : `:${minute}`}`
  return `${finiteText(local, local.micros)}${offset}`
}

/**
 * Parses JSON text into a value with all digits of its numbers; returns a string if it is only JSON to DuckDB, such as `NaN` or
 * `[1,]`.
 */
function parsed(text: string): Json {
  try {
    return JSON.parse(text, (_name, value, { source }) =>
      typeof value === 'number' && source !== undefined ? exactNumber(source) : value,
    ) as Json
  } catch {
    return text
  }
}
