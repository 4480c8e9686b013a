import { setTimeout as sleep } from 'node:timers/promises'

/** A server that asks for an hour is asked again sooner: it may have recovered, and a run must end. */
const MAX_PAUSE_MS = 5 * 60_000
/** When a 429 or 503 names no time: one second, then doubling with each further refusal in a row. */
const FIRST_PAUSE_MS = 1000

/**
 * When the next request may go out: one pause shared by all requests (a server that refuses one request
 * for load would refuse the others too; `refusals.ts` decides which refusals mean load), and an even spacing when a
 * rate is set.
 */
export type Pace = {
  /** Resolves when a request may be sent; rejects when the signal is aborted. */
  turn(signal: AbortSignal): Promise<void>
  /** All requests wait for so long, or for a growing time where the server named none. */
  pause(ms: number | null): void
  /** The pause is over at once: the server is well after all. */
  resume(): void
  /** A request was answered: the server is well. */
  answered(): void
}

export function createPace(options: {
  maxRps: number | null
  firstPauseMs?: number
  nowMs: () => number
}): Pace {
  const { maxRps, firstPauseMs = FIRST_PAUSE_MS, nowMs } = options
  const spacingMs = maxRps ? 1000 / maxRps : 0
  let pausedUntil = 0
  let nextSlot = 0
  let refusals = 0
  let resumed = new AbortController()

  return {
    async turn(signal) {
      for (;;) {
        const now = nowMs()
        const slot = Math.max(nextSlot, pausedUntil, now)
        if (slot <= now) {
          nextSlot = now + spacingMs
          return
        }
        const wasPaused = pausedUntil > now
        // Whoever waits for the end of a pause takes a slot then: together they would be a burst.
        if (!wasPaused) nextSlot = slot + spacingMs
        // A slot of one's own stays one's own, also when a pause is over early.
        const wake = wasPaused ? AbortSignal.any([signal, resumed.signal]) : signal
        await sleep(slot - now, undefined, { signal: wake }).catch(error => {
          if (signal.aborted) throw error
        })
        if (pausedUntil <= nowMs() && (spacingMs === 0 || !wasPaused)) return
      }
    },
    pause(ms) {
      const now = nowMs()
      // Requests that were under way together are refused together: that is one refusal.
      if (ms === null && pausedUntil > now) return
      const growing = firstPauseMs * 2 ** Math.min(refusals, 8)
      refusals += 1
      pausedUntil = Math.max(pausedUntil, now + Math.min(ms ?? growing, MAX_PAUSE_MS))
    },
    resume() {
      pausedUntil = nowMs()
      resumed.abort()
      resumed = new AbortController()
    },
    answered() {
      refusals = 0
    },
  }
}

/** `Retry-After` as milliseconds from now: seconds or an HTTP date; null when absent or neither. */
export function retryAfterMs(value: string | undefined, nowMs: number): number | null {
  if (value === undefined) return null
  if (/^\d+$/.test(value.trim())) return Number(value) * 1000
  const date = Date.parse(value)
  return Number.isNaN(date) ? null : Math.max(0, date - nowMs)
}
