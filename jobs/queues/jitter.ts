import { createHash } from 'node:crypto'
import type { Company } from './company_registry.ts'
import { periodMs } from './cron.ts'

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
