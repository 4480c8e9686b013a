import { CronExpressionParser } from 'cron-parser'

/** The schedule names no time after `fromMs` and before `nextMs`. */
type Pause = { readonly fromMs: number; readonly nextMs: number }

/** The pause that was asked about last, by schedule; there are few schedules, and they are asked about often. */
const pauses = new Map<string, Pause>()

/** When the schedule (a cron expression in its time zone) names its next time after `ms`; since the epoch. */
export function nextAfter(ms: number, pattern: string, timezone: string): number {
  const key = `${timezone} ${pattern}`
  const known = pauses.get(key)
  if (known && ms >= known.fromMs && ms < known.nextMs) return known.nextMs
  const next = CronExpressionParser.parse(pattern, { tz: timezone, currentDate: new Date(ms) }).next()
  const nextMs = next.getTime()
  pauses.set(key, { fromMs: ms, nextMs })
  return nextMs
}

const periods = new Map<string, number>()
/** Any time will do, as long as all workers take the same. */
const PERIOD_FROM = new Date('2026-01-01T00:00:00Z')

/** Between two times of the schedule; one that names several distances is taken by its first. */
export function periodMs(pattern: string, timezone: string): number {
  const key = `${timezone} ${pattern}`
  const known = periods.get(key)
  if (known !== undefined) return known
  const times = CronExpressionParser.parse(pattern, { tz: timezone, currentDate: PERIOD_FROM })
  const first = times.next().getTime()
  const period = times.next().getTime() - first
  periods.set(key, period)
  return period
}
