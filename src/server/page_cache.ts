import type { Json } from './contract/source.ts'
import type { PreparedMonth } from './prepared_month.ts'
import type { ServedSnapshot } from './snapshot.ts'

/** Pages of 200 notices take some 160 kB: enough for all pages of a company of 20,000 notices, twice. */
const MAX_BYTES = 32 * 1024 * 1024
/** Overhead of a cached page besides its bytes: its key, its tag, and the objects that hold them. */
const ENTRY_BYTES = 1024
/** A page is also kept compressed, in two encodings, once a client has requested them. */
const WITH_COMPRESSED = 1.5

/**
 * The memory for cached pages of all companies. Each company has an equal share, so a busy company does not evict
 * pages of another.
 */
export class PageBudget {
  readonly #caches = new Set<PageCache>()

  get bytesEach(): number {
    return MAX_BYTES / Math.max(1, this.#caches.size)
  }

  open(): PageCache {
    const cache = new PageCache(this, () => this.#caches.delete(cache))
    this.#caches.add(cache)
    return cache
  }
}

/** Cached pages of one company; the least recently used are evicted first. */
export class PageCache {
  readonly #budget: Pick<PageBudget, 'bytesEach'>
  readonly #onClose: () => void
  readonly #pages = new Map<string, Json>()
  #bytes = 0

  constructor(budget: Pick<PageBudget, 'bytesEach'>, onClose: () => void) {
    this.#budget = budget
    this.#onClose = onClose
  }

  get size(): number {
    return this.#pages.size
  }

  get maxBytes(): number {
    return this.#budget.bytesEach
  }

  get(key: string): Json | undefined {
    const page = this.#pages.get(key)
    if (page) {
      this.#pages.delete(key)
      this.#pages.set(key, page)
    }
    return page
  }

  /** Adds a page to the cache. @returns the page, even if it is too large to keep. */
  add(key: string, page: Json): Json {
    if (measureCost(page) > this.maxBytes) return page
    this.#pages.set(key, page)
    this.#bytes += measureCost(page)
    for (const [oldest, one] of this.#pages) {
      if (this.#bytes <= this.maxBytes) break
      this.#pages.delete(oldest)
      this.#bytes -= measureCost(one)
    }
    return page
  }

  close(): void {
    this.#pages.clear()
    this.#bytes = 0
    this.#onClose()
  }
}

function measureCost(page: Json): number {
  return ENTRY_BYTES + page.bytes.length * WITH_COMPRESSED
}

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
    const months = collectMonths(this.#kept)
    this.#kept = []
    return [...months]
  }

  #settle(
    candidates: readonly ServedSnapshot[],
    current: ServedSnapshot,
    { maxBytes, months }: { readonly maxBytes: number; readonly months: readonly PreparedMonth[] },
  ): PreparedMonth[] {
    const before = new Set([...months, ...collectMonths(this.#kept)])
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

function collectMonths(snapshots: readonly ServedSnapshot[]): Set<PreparedMonth> {
  return new Set(snapshots.flatMap(({ months }) => months))
}
