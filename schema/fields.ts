/**
 * A date-time as written by the API and the systems behind it: `2025-07-02T10:00:00`, with or without seconds,
 * fraction (any number of digits) and offset, separated by `T` or a space; or a date alone. RFC 3339 also allows
 * `t` and `z`. Without an offset, it is local time in SOURCE_TIMEZONE.
 */
const DATE_TIME =
  /^(\d{4})-(\d{2})-(\d{2})(?:[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:[.,]\d{1,18})?)?\s?(?:[Zz]|[+-](\d{2})(?::?(\d{2}))?)?)?$/

/** True for text in one of the forms above, if the day and the time exist. */
export function isDateTime(text: string): boolean {
  const parts = DATE_TIME.exec(text)
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
 * An id that is safe as one segment of a URL's path: no separators, escapes, quotes, white space, and neither `.`
 * nor `..`. The contract has no maximum length; ours keeps URLs valid.
 */
const PLAIN_PATH_SEGMENT = /^(?!\.{1,2}$)[A-Za-z0-9._~:@+=-]{1,200}$/

/** True for an id that may be put into `/editais/{id}`. */
export function isPlainPathSegment(id: string): boolean {
  return PLAIN_PATH_SEGMENT.test(id)
}

/**
 * The text in a form that SQL can parse, with all digits: `YYYY-MM-DD`, or with `T` or a space `HH:MM[:SS[.f…]]`,
 * then, after seconds, `Z`, `±HH:MM` or nothing (local time). DuckDB truncates a fraction to microseconds.
 * Expects text for which `isDateTime` holds.
 */
export function canonicalDateTime(text: string): string {
  if (CANONICAL.test(text)) return text
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
