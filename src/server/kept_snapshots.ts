import type { PreparedMonth } from './prepared_month.ts'
import type { ServedSnapshot } from './snapshot.ts'

/** How long a replaced snapshot can be read on after its last page, or after a download of it began. */
export const KEPT_MINUTES = 10
/** Maximum snapshots kept: those that were read last. With a publish every few minutes, enough for that time. */
const MAX_KEPT = 4

/** Snapshots that were replaced while a client was reading them in several requests. Most of their months are shared. */
export class KeptSnapshots {
  /** Newest first. */
  #kept: readonly ServedSnapshot[] = []

  get readable(): readonly ServedSnapshot[] {
    return this.#kept.filter(snapshot => snapshot.wasReadWithin(KEPT_MINUTES))
  }

  /**
   * Keeps a replaced snapshot if it is read.
   * @param maxBytes for months that the current snapshot does not have.
   * @returns the months that are no longer needed.
   */
  replace(replaced: ServedSnapshot, current: ServedSnapshot, maxBytes: number): PreparedMonth[] {
    // A snapshot with damaged months is replaced by itself, with sound ones.
    const kept = replaced.name === current.name ? this.#kept : [replaced, ...this.#kept]
    return this.#settle(kept, current, { maxBytes, months: replaced.months })
  }

  /** Drops the snapshots that are no longer read. @returns the months that are no longer needed. */
  expire(current: ServedSnapshot, maxBytes: number): PreparedMonth[] {
    return this.#kept.length === 0 ? [] : this.#settle(this.#kept, current, { maxBytes, months: [] })
  }

  /** Ends all. */
  clear(): PreparedMonth[] {
    const months = monthsOf(this.#kept)
    this.#kept = []
    return [...months]
  }

  #settle(
    candidates: readonly ServedSnapshot[],
    current: ServedSnapshot,
    { maxBytes, months }: { readonly maxBytes: number; readonly months: readonly PreparedMonth[] },
  ): PreparedMonth[] {
    const before = new Set([...months, ...monthsOf(this.#kept)])
    const needed = new Set(current.months)
    let bytes = 0
    const kept: ServedSnapshot[] = []
    const lastReadFirst = candidates.toSorted((one, other) => other.lastReadMs - one.lastReadMs)
    for (const snapshot of lastReadFirst) {
      if (kept.length === MAX_KEPT || !snapshot.wasReadWithin(KEPT_MINUTES)) continue
      const own = snapshot.months.filter(month => !needed.has(month))
      bytes += own.reduce((sum, month) => sum + month.bytes, 0)
      if (bytes > maxBytes) break
      kept.push(snapshot)
      for (const month of own) needed.add(month)
    }
    this.#kept = candidates.filter(snapshot => kept.includes(snapshot))
    return [...before].filter(month => !needed.has(month))
  }
}

function monthsOf(snapshots: readonly ServedSnapshot[]): Set<PreparedMonth> {
  return new Set(snapshots.flatMap(({ months }) => months))
}
