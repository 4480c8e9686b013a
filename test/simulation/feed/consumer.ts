import { NOTICE } from '#schema/notice.ts'
import { isSameTime } from '#schema/times.ts'
import type { Random } from '#src/sandbox/random.ts'
import { Refusal } from '#src/server/contract/source.ts'
import { CursorGone, type Feed } from '#src/server/feed/feed.ts'
import { type Cursor, type FeedPage, readFeedCursor } from '#src/server/feed/index_file.ts'
import { assertHolds } from '#test/simulation/assertions.ts'
import type { Documents, Served } from './mirror.ts'

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
  return feed.page(feed.findPosition(since, snapshot), snapshot, { limit, withValues: true, maxBytes: 1e6 })
}

const TIME_ZONE = 'America/Sao_Paulo'

/** Whether two values of a field mean the same: another spelling of the same time is no change, and makes no event. */
export function isSameValue(field: string, one: unknown, other: unknown): boolean {
  if (JSON.stringify(one) === JSON.stringify(other)) return true
  const isTime = Object.hasOwn(NOTICE, field) && NOTICE[field as keyof typeof NOTICE].type === 'date-time'
  return isTime && isSameTime(String(one), String(other), TIME_ZONE)
}

/** Whether two documents have the same fields, of the same meaning. */
export function isSameDocument(one: string | null | undefined, other: string | null | undefined): boolean {
  if (one === other) return true
  if (!one || !other) return false
  const [left, right] = [fieldsOf(one), fieldsOf(other)]
  const fields = new Set([...Object.keys(left), ...Object.keys(right)])
  return [...fields].every(field => isSameValue(field, left[field] ?? null, right[field] ?? null))
}

function fieldsOf(json: string): Record<string, unknown> {
  return JSON.parse(json) as Record<string, unknown>
}
