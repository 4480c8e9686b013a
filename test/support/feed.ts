import type { Kind } from '#src/server/feed/events.ts'
import { type Cursor, readFeedCursor } from '#src/server/feed/index_file.ts'
import type { ServedApi } from './serve.ts'

export const CHANGES = '/api/v1/mirror/changes'

export type FeedEvent = {
  readonly cursor: string
  readonly at: string
  readonly edital_id: string
  readonly kind: Kind
  readonly fields?: readonly string[]
  readonly from?: string | null
  readonly to?: string | null
  readonly changes?: readonly Readonly<Partial<Record<'field' | 'before' | 'after', unknown>>>[]
}

export type FeedAnswer = {
  readonly events: readonly FeedEvent[]
  readonly next: string
  readonly has_more: boolean
}

type Asking = Pick<ServedApi, 'json'>

/** All events after a cursor, and where they end. */
export async function follow(
  { json }: Asking,
  since: string | null,
  query = '',
): Promise<Omit<FeedAnswer, 'has_more'>> {
  const events: FeedEvent[] = []
  for (let next = since; ; ) {
    const page: FeedAnswer = await json(`${CHANGES}?${next === null ? '' : `since=${next}&`}${query}`)
    events.push(...page.events)
    next = page.next
    if (!page.has_more) return { events, next }
  }
}

/** Events without their cursors, which name the snapshot, too, but with their positions. */
export function placed(events: readonly FeedEvent[]): object[] {
  return events.map(({ cursor, ...event }) => {
    const { segment, seq, n } = readFeedCursor(cursor) as Cursor
    return { segment, seq, n, ...event }
  })
}

/** Events as short texts: `notice_changed n00002 objeto,updated_at`. */
export function shortly(events: readonly FeedEvent[]): string[] {
  return events.map(({ kind, edital_id, fields, from, to }) =>
    [kind, edital_id, fields?.join(','), from === undefined ? undefined : `${from}>${to}`]
      .filter(part => part !== undefined && part !== '')
      .join(' '),
  )
}
