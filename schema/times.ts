import { cleanText } from './text_key.ts'

/**
 * The one reader of date-times in TypeScript. Its counterparts in SQL are `instant` and `timeKey` of
 * `src/core/warehouse/sql.ts`: they read what `normalizeDateTime` writes. None of them depends on the time zone of the process.
 */

/**
 * A date-time as written by the API and the systems behind it: `2025-07-02T10:00:00`, with or without seconds,
 * fraction (any number of digits) and offset, separated by `T` or a space; or a date alone. RFC 3339 also allows
 * `t` and `z`. Without an offset, it is local time in SOURCE_TIMEZONE. What nobody sees in it, or around it, does not count.
 */
const DATE_TIME =
  /^(\d{4})-(\d{2})-(\d{2})(?:[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:[.,]\d{1,18})?)?\s?(?:[Zz]|[+-](\d{2})(?::?(\d{2}))?)?)?$/

/** With what nobody sees. Longer texts are no times: what compares them carries them as they were sent. */
const MAX_CHARACTERS = 200

/** Local times outside these years are typing errors, such as the year 0206 or 9999: nobody is shown them. */
export const PLAUSIBLE_YEARS = { first: 2010, last: 2060 } as const

/** A day alone, or a point in time. */
type Time = {
  /** Since 1970, rounded down; of a day, its beginning. */
  readonly micros: bigint
  /** Digits that follow the microseconds, without zeros at the end. */
  readonly beyond: string
  readonly isDay: boolean
}

/** Returns true for text in one of the forms above, if the day and the time exist. */
export function isDateTime(text: string): boolean {
  if (text.length > MAX_CHARACTERS) return false
  const parts = DATE_TIME.exec(text) ?? DATE_TIME.exec(cleanText(text))
  if (!parts) return false
  const [year, month, day, hour, minute, second, offsetHour, offsetMinute] = parts
    .slice(1)
    .map(part => Number(part ?? 0)) as [number, number, number, number, number, number, number, number]
  if (year < 1 || month < 1 || month > 12 || day < 1 || day > daysInMonth(year, month)) return false
  return hour < 24 && minute < 60 && second < 60 && offsetHour <= 15 && offsetMinute < 60
}

function daysInMonth(year: number, month: number): number {
  return new Date(Date.UTC(2000 + (year % 400), month, 0)).getUTCDate()
}

/**
 * Returns the text in a form that SQL can parse, with all digits: `YYYY-MM-DD`, or with `T` or a space `HH:MM[:SS[.f…]]`,
 * then, after seconds, `Z`, `±HH:MM` or nothing (local time). DuckDB truncates a fraction to microseconds.
 * Expects text for which `isDateTime` holds.
 */
export function normalizeDateTime(text: string): string {
  if (CANONICAL.test(text)) return text
  const clean = cleanText(text)
  if (clean !== text) return normalizeDateTime(clean)
  const [, year, month, day, hour, minute, second, offsetHour, offsetMinute] = DATE_TIME.exec(text) ?? []
  const fraction = /[.,](\d+)/.exec(text)?.[1]
  const date = `${year}-${month}-${day}T${hour ?? '00'}:${minute ?? '00'}:${second ?? '00'}`
  return `${date}${fraction ? `.${fraction}` : ''}${offset(text, offsetHour, offsetMinute)}`
}

const CANONICAL = /^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,18})?(?:Z|[+-]\d{2}:\d{2})?)?)?$/

function offset(text: string, hour?: string, minute?: string): string {
  if (hour === undefined) return /[Zz]$/.test(text) ? 'Z' : ''
  const sign = text.lastIndexOf('+') > 0 ? '+' : '-'
  return `${sign}${hour}:${minute ?? '00'}`
}

const CANONICAL_PARTS = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(:\d{2})?(?:\.(\d+))?(Z|[+-]\d{2}:\d{2})?)?$/

/**
 * Reads any text for which `isDateTime` holds.
 * @param timeZone of texts without an offset: an IANA name.
 * @returns null for other texts.
 */
export function readTime(text: string, timeZone: string): Time | null {
  if (!isDateTime(text)) return null
  const canonical = normalizeDateTime(text)
  const [, day, time = '00:00', second = ':00', digits = '', zone] = CANONICAL_PARTS.exec(canonical) ?? []
  const local = `${day}T${time}${second}`
  // An hour that is there twice is the later one, and one that is not there counts from before it, as in DuckDB.
  const { epochMilliseconds } =
    zone === undefined
      ? Temporal.PlainDateTime.from(local).toZonedDateTime(timeZone, { disambiguation: 'later' })
      : Temporal.Instant.from(local + zone)
  return {
    micros: BigInt(epochMilliseconds) * 1000n + BigInt(digits.slice(0, 6).padEnd(6, '0')),
    beyond: digits.slice(6).replace(/(?<!0)0+$/, ''),
    isDay: canonical.length === DAY_LENGTH,
  }
}

const DAY_LENGTH = 'YYYY-MM-DD'.length

/** Returns whether two texts are the same day, or the same point in time, however they are written. */
export function isSameTime(one: string, other: string, timeZone: string): boolean {
  return one === other || timeKey(one, timeZone) === timeKey(other, timeZone)
}

/** Returns one key for all texts of one time; a text that is not a time is its own key. */
export function timeKey(text: string, timeZone: string): string {
  const time = readTime(text, timeZone)
  return time === null ? text : [time.micros, time.isDay ? 'day' : time.beyond].join(' ').trimEnd()
}

/**
 * Returns the text that all spellings of a point in time share: `YYYY-MM-DDTHH:MM:SS[.f…]` and `Z`, without zeros at the end.
 * Those without an offset share one of their own, because which instant they are depends on the company. Days and other texts
 * stay as they are.
 */
export function unifySpelling(text: string): string {
  if (USUAL.test(text)) return text
  const time = readTime(text, 'UTC')
  if (time === null) return text
  if (time.isDay) return normalizeDateTime(text)
  const utc = utcText(time)
  return hasOffset(text) ? utc : utc.slice(0, -1)
}

const USUAL = /^.{10}T.{8}(?:\.\d*[1-9])?Z$/
const OFFSET = /[Zz]$|^[^:]*:.*[+-][\d:]+$/

/** Returns whether a date-time says which offset its zone has. */
export function hasOffset(text: string): boolean {
  return OFFSET.test(cleanText(text))
}

function utcText({ micros, beyond }: Time): string {
  const instant = Temporal.Instant.fromEpochNanoseconds(micros * 1000n)
  if (beyond === '') return instant.toString()
  return instant.toString({ fractionalSecondDigits: 6 }).replace('Z', `${beyond}Z`)
}

/**
 * Returns the local time of a text, as a Date whose UTC parts are the local ones: the form in which DuckDB returns local times.
 * Null for a text that is no time, and outside the plausible years.
 */
export function parseLocalTime(text: string, timeZone: string): Date | null {
  const time = readTime(text, timeZone)
  if (time === null) return null
  const local = shiftToLocalTime(new Date(Number(time.micros / 1000n)), timeZone)
  return isPlausible(local) ? local : null
}

/** Returns an instant as `parseLocalTime` does. */
export function shiftToLocalTime(instant: Date, timeZone: string): Date {
  const local = Temporal.Instant.fromEpochMilliseconds(instant.getTime()).toZonedDateTimeISO(timeZone)
  return new Date(instant.getTime() + local.offsetNanoseconds / 1e6)
}

/** Returns whether a local time, in that form, is in the plausible years. */
export function isPlausible(local: Date): boolean {
  const year = local.getUTCFullYear()
  return year >= PLAUSIBLE_YEARS.first && year <= PLAUSIBLE_YEARS.last
}

/** Returns the plausible instants in a zone, as text: from the first one on, and before the last one. */
export function findPlausibleInstants(timeZone: string): { readonly from: string; readonly before: string } {
  const { first, last } = PLAUSIBLE_YEARS
  const makeBeginning = (year: number) =>
    Temporal.PlainDate.from({ year, month: 1, day: 1 }).toZonedDateTime(timeZone).toInstant().toString()
  return { from: makeBeginning(first), before: makeBeginning(last + 1) }
}
