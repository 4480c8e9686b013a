/** A pause up to this is cheap: all requests wait, without a check of the cause. */
const SHORT_PAUSE_MS = 5000
/** How long to wait for one resource while others are answered; a later run retries. */
const PATIENCE_MS = 30_000
/** How often it is retried in that time, doubling the wait each time. */
const OWN_TRIES = 4

/**
 * The meaning of a refusal (429, 503, or any failure with `Retry-After`):
 * - `load`: the server wants fewer requests, so all wait;
 * - `own`: it concerns only this resource, because the server answers others;
 * - `unclear`: nothing else was answered since. All wait, and a request that succeeded before is repeated as a check.
 */
type Meaning = 'load' | 'own' | 'unclear'

export type Refusals = {
  /** Notes that a request is sent; pass the result to `answered`. */
  sent(): number
  /** Notes that the server answered this resource with anything but a refusal. */
  answered(resource: string, sent: number): void
  /** Notes that the server refused this resource; `retryAfterMs` is null if it named no time. */
  refused(resource: string, retryAfterMs: number | null): Meaning
  /** Returns how long to wait before retrying a resource that is refused by itself; null to stop retrying. */
  ownWaitMs(resource: string, retryAfterMs: number | null): number | null
}

type Refused = {
  /** When it was first and last refused, counted in events. */
  readonly first: number
  last: number
  ownTries: number
  waitedMs: number
}

/**
 * Distinguishes an overloaded server from one that cannot serve a single resource. It judges by what the server
 * answers in the meantime, not by what it claims. Pure: it uses the order of events, not a clock.
 *
 * - A short pause is always respected. A resource is refused by itself if it is refused again although others,
 *   requested since, were answered.
 * - The exception: others that had been refused were answered since. A rate limit refuses different requests in turn.
 * - A long pause is respected only if the server answers nothing else.
 *
 * @param firstWaitMs the wait before retrying a resource refused by itself, if the server names none.
 */
export function createRefusals({ firstWaitMs }: { firstWaitMs: number }): Refusals {
  const refused = new Map<string, Refused>()
  let events = 0
  let lastAnsweredSent = 0
  let lastRecovery = 0

  return {
    sent: () => ++events,
    answered(resource, sent) {
      lastAnsweredSent = Math.max(lastAnsweredSent, sent)
      if (refused.delete(resource)) lastRecovery = ++events
    },
    refused(resource, retryAfterMs) {
      const now = ++events
      const before = refused.get(resource)
      const othersAnswered = before !== undefined && lastAnsweredSent > before.last
      if (before) before.last = now
      else refused.set(resource, { first: now, last: now, ownTries: 0, waitedMs: 0 })
      const isShort = retryAfterMs === null || retryAfterMs <= SHORT_PAUSE_MS
      if (isShort && (!before || lastRecovery > before.first)) return 'load'
      return othersAnswered ? 'own' : 'unclear'
    },
    ownWaitMs(resource, retryAfterMs) {
      const own = refused.get(resource)
      if (!own) return 0
      const waitMs = retryAfterMs ?? firstWaitMs * 2 ** own.ownTries
      own.ownTries += 1
      own.waitedMs += waitMs
      if (own.ownTries <= OWN_TRIES && own.waitedMs <= PATIENCE_MS) return waitMs
      // Another request for it in this run starts over.
      refused.delete(resource)
      return null
    },
  }
}
