/** How old what is shown may be: what happened after the list was read last is not known. */

/** SQL: the readings of the whole list, also by runs that could not fetch every analysis. */
export const LISTINGS = `FROM sync_runs WHERE scan_complete AND mode IN ('full', 'incremental')`

const STALE_MS = 24 * 3_600_000

/** Returns whether a reading is so old that, under any usual schedule, several runs were missed since. */
export function isStale(readAt: Date | null, now: Date): boolean {
  return readAt !== null && now.getTime() - readAt.getTime() > STALE_MS
}

/** Returns the last reading of the list if it is old: changes are counted back from it. Null if they are counted back from now. */
export function findChangesEnd(listedAt: Date | null, now: Date): Date | null {
  return isStale(listedAt, now) ? listedAt : null
}

/** @param moment when the list was read last, as people write it. */
export function explainChangesEnd(moment: string): string {
  return `Até a última leitura da lista, ${moment}: o que mudou depois não se sabe.`
}
