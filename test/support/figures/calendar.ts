/** Local time, and the business days of Brazil. */

const ZONE = 'America/Sao_Paulo'
/** Sessions outside these years are typing errors: no calendar has them. */
const YEARS = { first: 2010, last: 2060 } as const
/** Law 14.133/2021, article 164: a notice may be contested up to this many business days before the session. */
const BUSINESS_DAYS_TO_CONTEST = 3

type Day = Temporal.PlainDate
type Local = Temporal.PlainDateTime

export function localTime(instant: Date): Local {
  return Temporal.Instant.fromEpochMilliseconds(instant.getTime()).toZonedDateTimeISO(ZONE).toPlainDateTime()
}

export function localDay(instant: Date): Day {
  return localTime(instant).toPlainDate()
}

/** The local day this many days from now, as YYYY-MM-DD. */
export const dayIn = (days: number): string => localDay(new Date()).add({ days }).toString()

/** Local time for the API's text of a moment; a text without an offset is already local. */
export function localTimeOf(text: string): Local {
  if (!/T.*(Z|[+-]\d{2}:\d{2})$/.test(text)) return Temporal.PlainDateTime.from(text)
  return Temporal.Instant.from(text).toZonedDateTimeISO(ZONE).toPlainDateTime()
}

/** Null if the year is implausible. */
export function sessionOf(text: string | null): Local | null {
  const local = text === null ? null : localTimeOf(text)
  return local && local.year >= YEARS.first && local.year <= YEARS.last ? local : null
}

/** Local days and times as the driver and the page hold them: the same digits, in UTC. */
export function inUtc(local: Day | Local): Date {
  return new Date(local.toZonedDateTime('UTC').epochMilliseconds)
}

export function daysBetween(from: Day, to: Day): number {
  return from.until(to).days
}

export function mondayOf(day: Day): Day {
  return day.subtract({ days: day.dayOfWeek - 1 })
}

/** The Mondays of a span of weeks around that of a day, which is 0. */
export function mondaysAround(day: Day, first: number, last: number): Day[] {
  return Array.from({ length: last - first + 1 }, (_, n) => mondayOf(day).add({ weeks: first + n }))
}

/** The last day to contest by law 14.133/2021, wherever offices may be closed on optional days off. */
export function lastDayToContest(session: Day): Day {
  return businessDaysBefore(session, BUSINESS_DAYS_TO_CONTEST, { uf: null, withOptional: true })
}

type Closed = { readonly uf: string | null; readonly withOptional: boolean }

export function businessDaysBefore(session: Day, days: number, closed: Closed): Day {
  let day = session
  for (let left = days; left > 0; left -= isBusinessDay(day, closed) ? 1 : 0) {
    day = day.subtract({ days: 1 })
  }
  return day
}

/** A session whose last day to contest is this day; null if there is none. */
export function sessionContestedUntil(day: Day): Day | null {
  const ahead = Array.from({ length: 14 }, (_, days) => day.add({ days: days + 1 }))
  return ahead.find(session => lastDayToContest(session).equals(day)) ?? null
}

function isBusinessDay(day: Day, { uf, withOptional }: Closed): boolean {
  if (day.dayOfWeek > 5 || isHoliday(day) || isStateHoliday(day, uf)) return false
  return !(withOptional && isOptional(day, uf))
}

const HOLIDAYS = ['01-01', '04-21', '05-01', '09-07', '10-12', '11-02', '11-15', '12-25']

function isHoliday(day: Day): boolean {
  const date = day.toString().slice(5)
  // Law 14.759/2023.
  if (date === '11-20') return day.year >= 2024
  return HOLIDAYS.includes(date) || day.equals(goodFriday(day.year))
}

/** Holidays of states since 2024, by month and day. Those with `>` move to the Friday after it, within a week. */
const STATES: Readonly<Record<string, string>> = {
  AC: '>01-23 >03-08 06-15 >09-05 >11-17',
  AL: '06-24 06-29 09-16 11-30',
  AM: '09-05',
  AP: '03-19 07-25 09-13',
  BA: '07-02',
  CE: '03-19 03-25',
  DF: '11-30',
  GO: '07-26 10-24',
  MA: '07-28',
  MS: '10-11',
  PA: '08-15',
  PB: '08-05',
  PE: '03-06',
  PI: '10-19',
  RJ: '04-23',
  RN: '10-03',
  RO: '01-04 06-18',
  RR: '10-05',
  RS: '09-20',
  SE: '07-08',
  SP: '07-09',
  TO: '03-18 09-08 10-05',
}

function isStateHoliday(day: Day, uf: string | null): boolean {
  const date = day.toString().slice(5)
  if (uf === 'RJ' && day.equals(easter(day.year).subtract({ days: 47 }))) return true
  if (uf === 'ES' && day.equals(easter(day.year).add({ days: 8 }))) return true
  return (STATES[uf ?? ''] ?? '').split(' ').some(rule => {
    if (!rule.startsWith('>')) return rule === date
    return day.equals(moved(Temporal.PlainDate.from(`${day.year}-${rule.slice(1)}`)))
  })
}

/** From Tuesday to Thursday, to the Friday of the same week. */
function moved(day: Day): Day {
  return day.dayOfWeek >= 2 && day.dayOfWeek <= 4 ? day.add({ days: 5 - day.dayOfWeek }) : day
}

const OPTIONAL = ['10-28', '12-24', '12-31']
const OPTIONAL_IN: Readonly<Record<string, string>> = {
  CE: '08-15',
  PB: '07-26',
  PE: '06-24',
  PI: '03-13',
  PR: '12-19',
  RN: '08-07',
  SE: '06-24',
}

function isOptional(day: Day, uf: string | null): boolean {
  const [date, sunday] = [day.toString().slice(5), easter(day.year)]
  if (OPTIONAL.includes(date) || OPTIONAL_IN[uf ?? ''] === date) return true
  if ([-48, -47, -46, 60].some(days => day.equals(sunday.add({ days })))) return true
  const own = (STATES[uf ?? ''] ?? '').split(' ').filter(rule => rule.startsWith('>'))
  return own.some(rule => rule.slice(1) === date)
}

export function goodFriday(year: number): Day {
  return easter(year).subtract({ days: 2 })
}

/** Knuth, The Art of Computer Programming, 1.3.2, exercise 14. */
function easter(year: number): Day {
  const golden = (year % 19) + 1
  const century = Math.floor(year / 100) + 1
  const leap = Math.floor((3 * century) / 4) - 12
  const moon = Math.floor((8 * century + 5) / 25) - 5
  const sunday = Math.floor((5 * year) / 4) - leap - 10
  const plain = (11 * golden + 20 + moon - leap) % 30
  const epact = (plain === 25 && golden > 11) || plain === 24 ? plain + 1 : plain
  const fullMoon = 44 - epact < 21 ? 74 - epact : 44 - epact
  const day = fullMoon + 7 - ((sunday + fullMoon) % 7)
  return Temporal.PlainDate.from({ year, month: 3, day: 1 }).add({ days: day - 1 })
}
