import { createHash } from 'node:crypto'
import { CronExpressionParser } from 'cron-parser'
import type { Company } from './company_registry.ts'

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
function periodMs(pattern: string, timezone: string): number {
  const key = `${timezone} ${pattern}`
  const known = periods.get(key)
  if (known !== undefined) return known
  const times = CronExpressionParser.parse(pattern, { tz: timezone, currentDate: PERIOD_FROM })
  const first = times.next().getTime()
  const period = times.next().getTime() - first
  periods.set(key, period)
  return period
}

/** A run scheduled for 8:00 should not start much later. */
const MAX_SPREAD_MS = 60_000
/** Share of a company's period: a schedule of every few seconds is spread less. */
const SPREAD_SHARE = 0.1

/**
 * Returns how long after its scheduled time a company's tick requests a run. Schedules fire at second 0, and a thousand
 * companies at once would be a burst for the API. Always the same for a company, whichever worker takes the tick; 0 if
 * there is only one company.
 */
export function jitterMs({ slug, schedule }: Company, companies: number): number {
  if (companies <= 1) return 0
  const share = createHash('sha256').update(slug).digest().readUInt32BE(0) / 2 ** 32
  return Math.floor(
    share * Math.min(MAX_SPREAD_MS, periodMs(schedule.syncCron, schedule.timezone) * SPREAD_SHARE),
  )
}
