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

/** The last day to contest by law 14.133/2021. */
export function lastDayToContest(session: Day): Day {
  return businessDaysBefore(session, BUSINESS_DAYS_TO_CONTEST)
}

export function businessDaysBefore(session: Day, days: number): Day {
  let day = session
  for (let left = days; left > 0; left -= isBusinessDay(day) ? 1 : 0) {
    day = day.subtract({ days: 1 })
  }
  return day
}

/** A session whose last day to contest is this day; null if there is none. */
export function sessionContestedUntil(day: Day): Day | null {
  const ahead = Array.from({ length: 14 }, (_, days) => day.add({ days: days + 1 }))
  return ahead.find(session => lastDayToContest(session).equals(day)) ?? null
}

function isBusinessDay(day: Day): boolean {
  return day.dayOfWeek <= 5 && !isHoliday(day)
}

const HOLIDAYS = ['01-01', '04-21', '05-01', '09-07', '10-12', '11-02', '11-15', '12-25']

function isHoliday(day: Day): boolean {
  const date = day.toString().slice(5)
  // Law 14.759/2023.
  if (date === '11-20') return day.year >= 2024
  return HOLIDAYS.includes(date) || day.equals(goodFriday(day.year))
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
