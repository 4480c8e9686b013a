import { createHash } from 'node:crypto'
import type { Company } from './company_registry.ts'
import { periodMs } from './cron.ts'

/** Nobody who says 8:00 should wait much longer. */
const MAX_SPREAD_MS = 60_000
/** Of a company's period: what comes every few seconds is spread over less. */
const SPREAD_SHARE = 0.1

/**
 * How long after its time a company's tick asks for a run: schedules name the second 0, and a thousand companies that
 * all ask at once would be a burst for the API. Always the same for a company, whichever worker takes the tick; 0 for
 * one that is alone.
 */
export function jitterMs({ slug, schedule }: Company, companies: number): number {
  if (companies <= 1) return 0
  const share = createHash('sha256').update(slug).digest().readUInt32BE(0) / 2 ** 32
  return Math.floor(
    share * Math.min(MAX_SPREAD_MS, periodMs(schedule.syncCron, schedule.timezone) * SPREAD_SHARE),
  )
}
