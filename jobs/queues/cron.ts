import { CronExpressionParser } from 'cron-parser'

/** The schedule has no time after `fromMs` and before `nextMs`. */
type Pause = { readonly fromMs: number; readonly nextMs: number }

/** A cache of the last pause, by schedule: there are few schedules, and they are looked up often. */
const pauses = new Map<string, Pause>()

/** Returns the next time of the schedule (a cron expression in its time zone) after `ms`, in ms since the epoch. */
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
/** Any time works if all workers use the same one. */
const PERIOD_FROM = new Date('2026-01-01T00:00:00Z')

/** Returns the time between two runs of the schedule; if its intervals differ, the first one. */
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
