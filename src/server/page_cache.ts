import type { Json } from './contract/source.ts'

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
    if (costOf(page) > this.maxBytes) return page
    this.#pages.set(key, page)
    this.#bytes += costOf(page)
    for (const [oldest, one] of this.#pages) {
      if (this.#bytes <= this.maxBytes) break
      this.#pages.delete(oldest)
      this.#bytes -= costOf(one)
    }
    return page
  }

  close(): void {
    this.#pages.clear()
    this.#bytes = 0
    this.#onClose()
  }
}

function costOf(page: Json): number {
  return ENTRY_BYTES + page.bytes.length * WITH_COMPRESSED
}
