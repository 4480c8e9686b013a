import type { Json } from '#src/service/source.ts'

/** Pages that were asked for, of all companies; those that were not for the longest time are forgotten first. */
export class PageCache {
  readonly #maxBytes: number
  readonly #pages = new Map<string, Json>()
  #bytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get(key: string): Json | undefined {
    const page = this.#pages.get(key)
    if (page) {
      this.#pages.delete(key)
      this.#pages.set(key, page)
    }
    return page
  }

  /** @returns the page, for whoever asked for it first. */
  add(key: string, page: Json): Json {
    this.#pages.set(key, page)
    this.#bytes += page.bytes.length
    for (const [oldest, one] of this.#pages) {
      if (this.#bytes <= this.#maxBytes) break
      this.#pages.delete(oldest)
      this.#bytes -= one.bytes.length
    }
    return page
  }
}
