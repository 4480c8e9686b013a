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
