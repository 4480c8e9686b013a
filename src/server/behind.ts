import { formatMoment } from '#src/present/text/format.ts'

/** Since when a newer state of a company has been known than the one that is served here, and why that is so. */
export type Behind = { readonly since: Date; readonly why: string }

/** Describes the age of a page's data, and whether there are newer ones elsewhere. */
export function ageOf({ asOf, timeZone }: { asOf: string; timeZone: string }, behind: Behind | null): string {
  const published = formatMoment(asOf, timeZone)
  if (behind === null) return published
  return `${published}; desde ${formatMoment(behind.since.toISOString(), timeZone)} há dados mais novos, que este servidor ainda não tem`
}
