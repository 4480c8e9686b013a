import { TIMEZONE } from '#test/support/warehouse.ts'

/** The date in São Paulo this many days from now, as YYYY-MM-DD: in UTC, the next day begins three hours earlier. */
export function dayIn(days: number): string {
  return Temporal.Now.plainDateISO(TIMEZONE).add({ days }).toString()
}
