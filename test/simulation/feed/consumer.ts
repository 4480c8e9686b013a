import type { Random } from '#src/sandbox/random.ts'
import { Refusal } from '#src/server/contract/source.ts'
import { type Cursor, readFeedCursor } from '#src/server/feed/cursor.ts'
import { CursorGone, type Feed } from '#src/server/feed/feed.ts'
import type { FeedPage } from '#src/server/feed/index_file.ts'
import { assertHolds } from '../assertions.ts'
import type { Documents, Served } from './mirror.ts'
import { isSameDocument } from './same.ts'

/** Up to so many events at once. */
const MOST = 6

type Source = { readonly feed: Feed; readonly served: Served }
export type Stepped = 'applied' | 'killed' | 'caught up' | 'begun anew' | 'refused'

/**
 * Keeps a table in step with the mirror, as the example in the documents does: it reads the documents that events name, and
 * stores rows and cursor at once. It may die between the two.
 */
export class Consumer {
  readonly table = new Map<string, Documents>()
  /** Positions of the events that it applied since it began. */
  applied: string[] = []
  /** Where it began; null for the beginning of the log. */
  since: string | null = null
  cursor: string | null = null
  readonly #random: Random

  constructor(random: Random) {
    this.#random = random
  }

  async step(source: Source, dies: number): Promise<Stepped> {
    try {
      return await this.#follow(source, dies)
    } catch (error) {
      if (error instanceof CursorGone) return await this.#beginAnew(source, dies)
      if (error instanceof Refusal && error.status === 503) return 'refused'
      throw error
    }
  }

  async #follow({ feed, served }: Source, dies: number): Promise<Stepped> {
    const page = await pageAfter(feed, served, this.cursor, this.#random.int(1, MOST))
    const { documents } = served
    const ids = page.events.map(({ json }) => (JSON.parse(json) as { edital_id: string }).edital_id)
    if (this.#random.chance(dies)) return 'killed'
    for (const id of ids) {
      const one = documents.get(id)
      if (one) this.table.set(id, one)
      else this.table.delete(id)
    }
    this.applied.push(...page.events.map(({ cursor }) => positionIn(cursor)))
    this.cursor = page.next
    if (page.events.length > 0 || page.hasMore) return 'applied'
    this.#checkInStep(served)
    return 'caught up'
  }

  /** The cursor first: what changes while the rest is read comes again. */
  async #beginAnew({ feed, served }: Source, dies: number): Promise<Stepped> {
    const { next } = await pageAfter(feed, served, 'latest', 1)
    if (this.#random.chance(dies)) return 'killed'
    this.table.clear()
    for (const [id, documents] of served.documents) this.table.set(id, documents)
    this.applied = []
    this.since = positionIn(next)
    this.cursor = next
    return 'begun anew'
  }

  #checkInStep({ documents, snapshot }: Served): void {
    for (const id of new Set([...documents.keys(), ...this.table.keys()])) {
      const [there, here] = [documents.get(id), this.table.get(id)]
      assertHolds(
        isSameDocument(there?.notice, here?.notice) && isSameDocument(there?.analysis, here?.analysis),
        () =>
          `a consumer that has read everything up to ${snapshot.name} has of ${id}: ${JSON.stringify(here)}, and the mirror: ${JSON.stringify(there)}`,
      )
    }
  }
}

/** The same event has other cursors in answers from other snapshots. */
export function positionIn(cursor: string): string {
  const { segment, seq, n } = readFeedCursor(cursor) as Cursor
  return `${segment} ${seq} ${n}`
}

export async function pageAfter(
  feed: Feed,
  { snapshot }: Served,
  since: string | null,
  limit: number,
): Promise<FeedPage> {
  await feed.ready(() => snapshot)
  return feed.page(feed.positionOf(since, snapshot), snapshot, { limit, withValues: true, maxBytes: 1e6 })
}
