import { Refusal } from '#src/server/contract/source.ts'
import type { FeedPage, PageRequest } from '#src/server/feed/index_file.ts'
import type { Woken } from '#src/server/feed/waiting.ts'
import type { MirrorSource } from './route.ts'

/** How soon a client whose key is revoked no longer waits. */
const LOOK_AT_KEY_MS = 2000

type Options = {
  readonly source: Pick<MirrorSource, 'company' | 'feed' | 'snapshot' | 'waiting' | 'isStillValid'>
  readonly inTurn: <T>(work: () => Promise<T>) => Promise<T | null>
  /** Aborted when the client is gone. */
  readonly gone: AbortSignal
  /** A cursor, `latest`, or null for the beginning of the log. */
  readonly since: string | null
  readonly request: Omit<PageRequest, 'upTo' | 'madeMs'>
}

/** One client that reads the changes of its company, page by page, and waits for more. */
export class FeedFollower {
  readonly #options: Options
  #since: string | null
  /** The name of the snapshot that was read last. */
  #read: string | null = null

  constructor(options: Options) {
    this.#options = options
    this.#since = options.since
  }

  /**
   * Returns the next page; empty if there is nothing new. Null if the client is gone.
   * @throws Refusal and CursorGone, as `Feed` does.
   */
  async next(): Promise<FeedPage | null> {
    const { source, inTurn, request } = this.#options
    const feed = source.feed()
    const snapshot = await feed.ready(() => source.snapshot())
    this.#read = snapshot.name
    const page = await inTurn(async () => {
      // Checked again for each page: the log may have been replaced since the last one.
      return feed.page(feed.positionOf(this.#since, snapshot), snapshot, request)
    })
    if (page) this.#since = page.next
    return page
  }

  /** Waits for the next snapshot, for as long as its key is valid. */
  async sleep(ms: number): Promise<Woken> {
    const { source, gone } = this.#options
    // Published since: no client would be woken for it again.
    if (!gone.aborted && this.#read !== null && source.snapshot().name !== this.#read) return 'published'
    const endMs = performance.now() + ms
    for (;;) {
      const leftMs = endMs - performance.now()
      const woken = await source.waiting.sleep(source.company, Math.min(leftMs, LOOK_AT_KEY_MS), gone)
      if (woken !== 'late' || leftMs <= LOOK_AT_KEY_MS || !source.isStillValid()) return woken
    }
  }

  /** Returns the next page that has events, or the last one when the time is over. */
  async nextWithin(ms: number): Promise<FeedPage | null> {
    const { source } = this.#options
    const endMs = performance.now() + ms
    for (;;) {
      const page = await this.next()
      if (!page || page.events.length > 0) return page
      const leftMs = endMs - performance.now()
      if (leftMs <= 0) return page
      const woken = await this.sleep(leftMs)
      if (woken === 'gone') return null
      if (!source.isStillValid())
        throw new Refusal(401, 'The API key was revoked or has expired while the request waited.')
      if (woken !== 'published') return page
    }
  }
}
