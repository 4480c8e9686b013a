import { cleanText } from '#schema/text_key.ts'
import { parseLocalTime } from '#schema/times.ts'
import type { ResultColumn } from '#src/core/warehouse/database.ts'

/** Formats texts, numbers and dates as Brazilian readers expect. Days and local times are passed as Date in UTC. */

const NUMBER = new Intl.NumberFormat('pt-BR', { maximumFractionDigits: 0 })
const ONE_DECIMAL = new Intl.NumberFormat('pt-BR', { maximumFractionDigits: 1 })
const CENTS = new Intl.NumberFormat('pt-BR', { maximumFractionDigits: 2 })
const PERCENT = new Intl.NumberFormat('pt-BR', { style: 'percent', maximumFractionDigits: 0 })
const MONEY = new Intl.NumberFormat('pt-BR', { style: 'currency', currency: 'BRL' })
const WHOLE_MONEY = new Intl.NumberFormat('pt-BR', {
  style: 'currency',
  currency: 'BRL',
  maximumFractionDigits: 0,
})
const SHORT_MONEY = new Intl.NumberFormat('pt-BR', {
  style: 'currency',
  currency: 'BRL',
  notation: 'compact',
  minimumFractionDigits: 0,
  maximumFractionDigits: 1,
})
const WEEKDAYS = ['dom', 'seg', 'ter', 'qua', 'qui', 'sex', 'sáb']
/** Longer addresses are slow to open, and readers do not trust them. */
const MAX_ADDRESS_CHARACTERS = 1000

export const NONE = '–'

/** So many characters are read for each that is shown: the others may be spaces, or invisible. */
const READ_PER_SHOWN = 8
/** At the end of a clean text, which has single spaces. */
const BROKEN_WORD = / [^ ]{0,14}$/
/** Tried where a run of signs begins, not at each sign: some texts have thousands of dots. */
const LAST_SIGNS = /(?<![ ,;:.-])[ ,;:.-]+$/

/** Returns a text of a notice in one line, cut to `maxCharacters`; null if nothing in its beginning is visible. */
export function fitInLine(text: string | null, maxCharacters: number): string | null {
  if (text === null) return null
  const beginning = text.slice(0, READ_PER_SHOWN * maxCharacters)
  const clean = cleanText(beginning)
  // A character has at most two code units, so a long text need not be split completely.
  const characters = [...clean.slice(0, 2 * maxCharacters + 2)]
  if (characters.length <= maxCharacters) {
    const isCut = clean !== '' && beginning.length < text.length
    return isCut ? `${clean}…` : clean || null
  }
  const cut = characters.slice(0, maxCharacters - 1).join('')
  return `${cut.replace(BROKEN_WORD, '').replace(LAST_SIGNS, '')}…`
}

/** Returns the address of a link if it is a usable web address, else null. */
export function findUsableLink(text: string | null): string | null {
  if (text === null || text.length > MAX_ADDRESS_CHARACTERS || !URL.canParse(text)) return null
  const url = new URL(text)
  return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : null
}

type Placed = {
  readonly edital_id: string
  readonly pncp_url: string | null
  readonly esta_na_api: boolean
}

/** Returns the address of a notice's page: ours if we know where our pages are and have it there, or else PNCP's. */
export function findNoticeAddress(
  { edital_id, pncp_url, esta_na_api }: Placed,
  pagesUrl: string | null,
): string | null {
  return pagesUrl !== null && esta_na_api
    ? `${pagesUrl}/editais/${encodeURIComponent(edital_id)}`
    : findUsableLink(pncp_url)
}

export function number(value: number): string {
  return NUMBER.format(value)
}

/** Formats a count with its noun: `1 edital`, `1.234 editais`. */
export function formatPlural(value: number, one: string, many: string): string {
  return `${number(value)} ${value === 1 ? one : many}`
}

/** Formats an elapsed time: `3 h`, `3,7 dias`; never negative, even if a clock was ahead. */
export function formatDays(value: number | null): string {
  if (value === null) return NONE
  const past = Math.max(0, value)
  if (past < 1 / 24) return '< 1 h'
  if (past < 1) return `${Math.floor(past * 24)} h`
  const rounded = past < 10 ? Math.round(past * 10) / 10 : Math.round(past)
  return `${ONE_DECIMAL.format(rounded)} ${rounded < 2 ? 'dia' : 'dias'}`
}

/** Formats a share of 0 to 1: `50%`. Only what is all is 100%. */
export function formatPercent(share: number | null): string {
  return share === null ? NONE : PERCENT.format(share < 1 ? Math.min(share, 0.99) : share)
}

export function formatMoney(value: number | null): string {
  return value === null ? NONE : MONEY.format(value)
}

/** Formats an amount without cents, which do not matter in a sum. */
export function formatWholeMoney(value: number | null): string {
  return value === null ? NONE : WHOLE_MONEY.format(value)
}

/** Formats an amount in short: `R$ 1,2 mi`. */
export function formatShortMoney(value: number): string {
  return SHORT_MONEY.format(value)
}

/** Formats a day: `21/11/2026`. */
export function formatDay(date: Date | null): string {
  return date === null ? NONE : `${formatDayAndMonth(date)}/${String(date.getUTCFullYear()).padStart(4, '0')}`
}

/** Formats a day without its year: `21/11`. */
export function formatDayAndMonth(date: Date): string {
  return `${two(date.getUTCDate())}/${two(date.getUTCMonth() + 1)}`
}

export function formatWeekday(date: Date): string {
  return WEEKDAYS[date.getUTCDay()] ?? NONE
}

/** Formats a time of day: `09:00`; null at midnight, which means a day without a time, not a session at midnight. */
export function timeOfDay(date: Date): string | null {
  const time = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`
  return time === '00:00' ? null : time
}

/** Formats a day and its time: `21/11/2026 às 09:00`. */
export function formatDayAndTime(date: Date | null): string {
  if (date === null) return NONE
  const time = timeOfDay(date)
  return time === null ? formatDay(date) : `${formatDay(date)} às ${time}`
}

/** Formats a distance in days: `hoje`, `amanhã`, `em 5 dias`. */
export function formatDistance(distance: number): string {
  if (distance === 0) return 'hoje'
  return distance === 1 ? 'amanhã' : `em ${number(distance)} dias`
}

/** Formats an age in the largest unit that fits, rounded down: `5 min`, `3 h`, `2 dias`. */
export function formatAge(durationMs: number): string {
  const minutes = Math.max(0, Math.floor(durationMs / 60_000))
  if (minutes < 60) return `${minutes} min`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours} h` : `${number(Math.floor(hours / 24))} dias`
}

/**
 * Returns a date-time, as text, in the local time of a zone: `21/11/2026 às 09:00`, and of a day alone `21/11/2026`. A text that
 * is no time and an implausible one (`schema/times.ts`) are not shown.
 * @param timeZone also of texts without an offset.
 */
export function formatMoment(value: unknown, timeZone: string): string {
  return typeof value === 'string' ? formatDayAndTime(parseLocalTime(value, timeZone)) : NONE
}

/** Formats a value as the database writes it: `1.234,5`, `21/11/2026 às 09:00`, `sim`. What has no such form stays as it is. */
export function formatWritten(text: string | null, kind: ResultColumn['kind']): string {
  if (text === null) return NONE
  if (kind === 'boolean') return text === 'true' ? 'sim' : 'não'
  // As text, because a number would lose the digits of a long one.
  if (kind === 'number') return /\d/.test(text) ? CENTS.format(text as Intl.StringNumericLiteral) : text
  const date = kind === 'other' ? null : new Date(`${text.replace(' ', 'T')}${kind === 'time' ? 'Z' : ''}`)
  if (date === null || Number.isNaN(date.getTime())) return text
  return kind === 'day' ? formatDay(date) : formatDayAndTime(date)
}

/** Gives all numbers of a column, as `formatWritten` writes them, as many decimals as the longest has: `522.000,00` below `3.911,50`. */
export function withEqualDecimals(column: readonly string[]): string[] {
  const findDecimals = (text: string) =>
    /^-?[\d.]+(?:,(\d+))?$/
      .exec(text)
      ?.slice(1)
      .map(decimals => decimals ?? '')[0]
  const most = Math.max(0, ...column.map(text => findDecimals(text)?.length ?? 0))
  return column.map(text => {
    const own = findDecimals(text)
    if (own === undefined || own.length === most) return text
    return `${text}${own === '' ? ',' : ''}${'0'.repeat(most - own.length)}`
  })
}

function two(value: number): string {
  return String(value).padStart(2, '0')
}
