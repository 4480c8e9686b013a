import { CALENDAR_YEARS } from '#schema/marts/basics.ts'
import { type Finding, ok, warning } from './finding.ts'

/** Warns in the last year for which holidays were checked: business days of later sessions may be wrong. */
export function checkCalendar(now: Date): Finding {
  const { first, last } = CALENDAR_YEARS
  const about = ['calendar', 'schema/marts/feriados.sql'] as const
  if (now.getUTCFullYear() < last) return ok(...about, `Holidays are known from ${first} to ${last}`)
  return warning(
    ...about,
    `has holidays up to ${last}, so last days to contest sessions after that year may be wrong`,
    'Upgrade to a version with a later calendar',
  )
}
