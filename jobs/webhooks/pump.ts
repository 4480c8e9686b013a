import { composeEvent, type Feeds, isWanted, RESET } from '#src/server/webhooks/feed.ts'
import {
  type Backlog,
  type Subscription,
  Subscriptions,
  validKeys,
} from '#src/server/webhooks/subscriptions.ts'

/** Events that are read from the feed at once. */
const PART = 500
/** More is not taken from the feed while as many messages wait for a receiver: it may be down for days. */
const MAX_QUEUED = 1000
/** Jobs of a receiver, besides those that wait for another attempt; the next ones follow as these end. */
export const IN_QUEUE = 10
/** The keys and subscriptions are read every few seconds, and other processes write them briefly. */
const WAIT_MS = 50

export type PumpOptions = {
  readonly dataDir: string
  readonly feeds: Feeds
  /** Whether a company is one of this worker. */
  readonly isOurs: (company: string) => boolean
  /** Adds jobs for these messages; those that are there already stay. */
  readonly enqueue: (
    subscription: Subscription,
    queued: readonly { readonly id: string; readonly at: number }[],
  ) => Promise<void>
  readonly now: () => Date
  /** Called when a subscription stops. */
  readonly onStop: (subscription: Subscription, because: string) => void
  /** Called when a subscription's events cannot be read. */
  readonly onError: (subscription: Subscription, error: unknown) => void
}

/** Forgets received messages that can no longer be tried again. */
export function forgetOld(dataDir: string, now: Date): void {
  withStore(dataDir, store => store.forgetOld(now))
}

/** Works with the file of subscriptions; null without one. */
function withStore<T>(dataDir: string, work: (store: Subscriptions) => T): T | null {
  const store = Subscriptions.openIfThere(dataDir, WAIT_MS)
  try {
    return store && work(store)
  } finally {
    store?.close()
  }
}

/** Returns what waits for each receiver. */
export function backlogsOf(dataDir: string): readonly Backlog[] {
  return withStore(dataDir, store => store.backlogs()) ?? []
}

/**
 * Stops subscriptions whose key is no longer valid, and queues all messages that are to be sent. It waits for no feed: a key that
 * is revoked must end what is sent, however long that takes.
 */
export async function queueWaiting(options: PumpOptions): Promise<void> {
  const { isOurs, enqueue, onStop } = options
  await withSubscriptions(options, async (store, hasKey) => {
    for (const subscription of store.list()) {
      const { id, stoppedBecause } = subscription
      if (stoppedBecause !== null) continue
      if (hasKey(subscription)) {
        if (isOurs(subscription.company)) await enqueue(subscription, store.queued(id, IN_QUEUE))
        continue
      }
      const because = `its API key ${subscription.key} is no longer valid`
      if (store.stop(id, because)) onStop(subscription, because)
    }
  })
}

/** Takes new events from the feeds into messages, and queues the first of them. A feed that is slow holds up no other company. */
export async function takeEvents(options: PumpOptions): Promise<void> {
  const { isOurs, enqueue, onError } = options
  await withSubscriptions(options, async (store, hasKey) => {
    const sending = store
      .list()
      .filter(one => one.stoppedBecause === null && isOurs(one.company) && hasKey(one))
    const companies = [...Map.groupBy(sending, ({ company }) => company).values()]
    const work = companies.map(async subscriptions => {
      for (const subscription of subscriptions) {
        try {
          await takeNew(store, subscription, options)
        } catch (error) {
          // Others are not held up.
          onError(subscription, error)
        }
        await enqueue(subscription, store.queued(subscription.id, IN_QUEUE))
      }
    })
    // All, before the file is closed.
    const failed = (await Promise.allSettled(work)).find(({ status }) => status === 'rejected')
    if (failed) throw (failed as PromiseRejectedResult).reason
  })
}

/** Does nothing without a file of subscriptions, or of keys: that may come back, as in a restore. */
async function withSubscriptions(
  { dataDir, now }: Pick<PumpOptions, 'dataDir' | 'now'>,
  work: (store: Subscriptions, hasKey: (subscription: Pick<Subscription, 'key'>) => boolean) => Promise<void>,
): Promise<void> {
  const store = Subscriptions.openIfThere(dataDir, WAIT_MS)
  if (!store) return
  try {
    const hasKey = validKeys(dataDir, now(), WAIT_MS)
    if (hasKey) await work(store, hasKey)
  } finally {
    store.close()
  }
}

async function takeNew(
  store: Subscriptions,
  subscription: Subscription,
  { feeds, now }: PumpOptions,
): Promise<void> {
  let { cursor } = subscription
  while (!store.isFull(subscription.id, MAX_QUEUED)) {
    const part = await feeds.read(subscription.company, cursor, PART)
    if (part === null) return
    if (part === 'gone') {
      cursor = await beginAnew(store, { ...subscription, cursor }, { feeds, now })
      if (cursor === null) return
      continue
    }
    const { events, next } = part
    if (next === cursor) return
    const deliveries = events
      .filter(event => isWanted(subscription, event))
      .map(event => composeEvent(subscription, event))
    if (!store.take({ id: subscription.id, cursor }, { deliveries, next }, now())) return
    cursor = next
    if (events.length < PART) return
  }
}

/**
 * Moves a subscription to the end of another log. Its receiver has to read everything once, and gets what changes from now on.
 */
async function beginAnew(
  store: Subscriptions,
  subscription: Subscription,
  { feeds, now }: Pick<PumpOptions, 'feeds' | 'now'>,
): Promise<string | null> {
  const next = await feeds.latest(subscription.company)
  if (next === null) return null
  const reset = composeEvent(subscription, { kind: RESET, cursor: next, at: now().toISOString() })
  return store.take(subscription, { deliveries: [reset], next }, now()) ? next : null
}
