/** A pause up to this is cheap: all wait it out, and nobody asks whose fault it is. */
const SHORT_PAUSE_MS = 5000
/** How long one resource may be waited for while the others are answered; a later run tries again. */
const PATIENCE_MS = 30_000
/** So often it is asked for again meanwhile, each time after twice the wait. */
const OWN_TRIES = 4

/**
 * What a refusal (429, 503, or any failure with `Retry-After`) is about:
 * - `load`: the server wants fewer requests, so all wait;
 * - `own`: this one resource, for the server answers others;
 * - `unclear`: nothing else was answered since. All wait, and something that was answered before tells.
 */
export type Meaning = 'load' | 'own' | 'unclear'

export type Refusals = {
  /** A request goes out; `answered` takes what this returns. */
  sent(): number
  /** The server answered this resource: whatever it said, it was not a refusal. */
  answered(resource: string, sent: number): void
  /** The server refused this resource, and said to come again after so long, or not when. */
  refused(resource: string, retryAfterMs: number | null): Meaning
  /** How long to wait before a resource that is refused by itself is asked for again; null to give it up. */
  ownWaitMs(resource: string, retryAfterMs: number | null): number | null
}

type Refused = {
  /** When it was refused for the first and for the last time, counted in events. */
  readonly first: number
  last: number
  ownTries: number
  waitedMs: number
}

/**
 * Tells a server that has too much to do from one that cannot give a single resource, by what it answers
 * meanwhile and not by what it says of itself. Pure: it knows an order of events, and no clock.
 *
 * - A short pause is always kept. A resource that is refused again although others, asked for since, were answered is
 *   refused by itself.
 * - Unless others that had been refused were answered since: a limited rate refuses now these, now those, and all in turn.
 * - A long pause is believed only if the server answers nobody.
 *
 * @param firstWaitMs before a resource of its own is asked for again, if the server does not say.
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
      // Whoever asks for it once more in this run begins anew.
      refused.delete(resource)
      return null
    },
  }
}
