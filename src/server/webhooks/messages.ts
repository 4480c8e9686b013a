import { createHash } from 'node:crypto'
import type { ShownEvent } from './feed.ts'
import type { Delivery, Subscription } from './subscriptions.ts'

/** The kind of the message that is sent when the log was replaced: what was received before may not be what is there now. */
export const RESET = 'feed_reset'
/** The kind of the message of `npm run webhooks -- test`. */
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
    id: `msg_${createHash('sha256').update(same).digest('hex').slice(0, 32)}`,
    subscription: id,
    body: JSON.stringify({ type: kind, timestamp: at, data: { company, ...event } }),
  }
}

export function isWanted({ events }: Subscription, { kind }: ShownEvent): boolean {
  return events === null || kind === RESET || events.includes(kind)
}
