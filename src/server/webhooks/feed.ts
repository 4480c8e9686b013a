import { dirname, join } from 'node:path'
import type { Logger } from 'pino'
import { readLatestName, readManifest, snapshotsDirectory } from '#src/core/lake/manifest.ts'
import { hashContent } from '#src/lib/hash.ts'
import type { Sources } from '#src/server/company.ts'
import { Refusal } from '#src/server/contract/source.ts'
import { KINDS } from '#src/server/feed/events.ts'
import { type BringUp, CursorGone, createIndexers, Feed, type FeedSnapshot } from '#src/server/feed/feed.ts'
import { makeFeedSnapshot } from '#src/server/snapshot.ts'
import type { Delivery, Subscription } from './subscriptions.ts'

/** The kinds of events that a subscription can choose from. */
export const EVENT_KINDS = Object.keys(KINDS)

/** One event, as the change feed shows it. */
export type ShownEvent = {
  /** Its place in the feed. */
  readonly cursor: string
  /** ISO 8601 in UTC. */
  readonly at: string
  readonly kind: string
}

type Part = { readonly events: readonly ShownEvent[]; readonly next: string }

/** The change feeds of all companies, as webhooks need them. */
export type Feeds = {
  /** Returns the place after the newest event; null if there is no snapshot yet, or it is being prepared. */
  latest(company: string): Promise<string | null>
  /**
   * Returns up to `limit` events after a place, and the place after them; null if they cannot be read now, and `gone` if the log
   * behind the place is another one.
   * @param since null for the beginning of the log.
   */
  read(company: string, since: string | null, limit: number): Promise<Part | 'gone' | null>
}

/** Maximum size of a part of the feed. */
const MAX_BYTES = 4 * 1024 * 1024

type FeedsOptions = Sources & {
  readonly log: Logger
  /**
   * Returns the snapshot that is served, up to which events may be read: a receiver that then asks for the document must get it.
   * By default, what is published. Throws Refusal (503) if there is none yet.
   */
  readonly getServed?: (company: string) => FeedSnapshot
  /** By default, in processes of their own. */
  readonly bringUp?: BringUp
}

/** Opens the feeds of companies whose lakes are here, each when it is first read. */
export function openFeeds({
  findLake,
  findLog,
  log,
  getServed,
  bringUp = createIndexers(),
}: FeedsOptions): Feeds & { close(): Promise<void> } {
  const feeds = new Map<string, Feed>()
  const openCompanyFeed = (company: string) => {
    const known = feeds.get(company)
    if (known) return known
    const settings = findLog(company)
    const shared = settings && { settings, company }
    const feed = new Feed({ root: dirname(findLake(company)), shared, log: log.child({ company }), bringUp })
    feeds.set(company, feed)
    return feed
  }
  const latest = new Map<string, FeedSnapshot>()
  const readCompanySnapshot = async (company: string): Promise<FeedSnapshot | null> => {
    const lake = findLake(company)
    const known = latest.get(company)
    const snapshot = known?.name === (await readLatestName(lake)) ? known : await latestForFeed(lake)
    if (snapshot) latest.set(company, snapshot)
    return snapshot
  }
  const read = async (company: string, since: string | null, limit: number): Promise<Part | null> => {
    const snapshot = getServed ? getServed(company) : await readCompanySnapshot(company)
    return snapshot && (await readPart(openCompanyFeed(company), snapshot, { since, limit }))
  }
  return {
    async latest(company) {
      return (await whenReady(() => read(company, 'latest', 1)))?.next ?? null
    },
    async read(company, since, limit) {
      try {
        return await whenReady(() => read(company, since, limit))
      } catch (error) {
        if (error instanceof CursorGone) return 'gone'
        throw error
      }
    },
    async close() {
      await Promise.all([...feeds.values()].map(feed => feed.close()))
    },
  }
}

async function readPart(
  feed: Feed,
  current: FeedSnapshot,
  { since, limit }: { since: string | null; limit: number },
): Promise<Part> {
  const snapshot = await feed.ready(() => current)
  const request = { limit, withValues: false, maxBytes: MAX_BYTES }
  const { events, next } = feed.page(feed.findPosition(since, snapshot), snapshot, request)
  return { events: events.map(({ json }) => JSON.parse(json) as ShownEvent), next }
}

/** Reads from a feed; null if it is not ready yet. */
async function whenReady<T>(read: () => Promise<T>): Promise<T | null> {
  try {
    return await read()
  } catch (error) {
    if (error instanceof Refusal && error.status === 503) return null
    throw error
  }
}

/** Returns what the feed needs of the latest published snapshot; null before the first. */
async function latestForFeed(lake: string): Promise<FeedSnapshot | null> {
  const name = await readLatestName(lake)
  if (name === null) return null
  const directory = join(snapshotsDirectory(lake), name)
  const manifest = await readManifest(directory)
  if (!manifest) throw new Error(`${directory} has no manifest`)
  return makeFeedSnapshot(manifest, directory)
}

/** The kind of the message that is sent when the log was replaced: what was received before may not be what is there now. */
export const RESET = 'feed_reset'
/** The kind of the message of `editais webhooks test`. */
export const PING = 'ping'

/**
 * Returns an event as a message. Its id is that of the event whenever it is read; its cursor is that of the snapshot it
 * was read from.
 */
export function composeEvent({ id, company }: Subscription, event: ShownEvent): Delivery {
  const { kind, at, cursor: _, ...what } = event
  const same = JSON.stringify([id, kind, at, what])
  return {
    // No dot: it separates the id from the rest of what is signed.
    id: `msg_${hashContent(same).slice(0, 32)}`,
    subscription: id,
    body: JSON.stringify({ type: kind, timestamp: at, data: { company, ...event } }),
  }
}

export function isWanted({ events }: Subscription, { kind }: ShownEvent): boolean {
  return events === null || kind === RESET || events.includes(kind)
}
