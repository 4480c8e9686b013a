import { setTimeout as sleep } from 'node:timers/promises'

/** A server that asks for an hour is retried sooner: it may have recovered, and a run must end. */
const MAX_PAUSE_MS = 5 * 60_000
/** Pause for a 429 or 503 without `Retry-After`: one second, doubled with each further refusal in a row. */
const FIRST_PAUSE_MS = 1000

/**
 * When the next request may be sent: one pause shared by all requests, and even spacing if a rate is set. The pause
 * is shared because a server that refuses one request under load would refuse the others too; `endpoints.ts` decides
 * which refusals mean load.
 */
export type RequestPace = {
  /** Resolves when a request may be sent; rejects when the signal is aborted. */
  turn(signal: AbortSignal): Promise<void>
  /** Makes all requests wait this long, or for a growing time if the server named none. */
  pause(ms: number | null): void
  /** Ends the pause at once: the server is healthy after all. */
  resume(): void
  /** Notes that a request was answered, so the server is healthy. */
  answered(): void
}

export function createPace(options: {
  maxRps: number | null
  firstPauseMs?: number
  nowMs: () => number
}): RequestPace {
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
        // A request that waits for a pause takes its slot afterwards; otherwise they would all go out in a burst.
        if (!wasPaused) nextSlot = slot + spacingMs
        // A request that has a slot keeps it, even if a pause ends early.
        const wake = wasPaused ? AbortSignal.any([signal, resumed.signal]) : signal
        await sleep(slot - now, undefined, { signal: wake }).catch(error => {
          if (signal.aborted) throw error
        })
        if (pausedUntil <= nowMs() && (spacingMs === 0 || !wasPaused)) return
      }
    },
    pause(ms) {
      const now = nowMs()
      // Requests in flight together are refused together; that counts as one refusal.
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

/** Reads `Retry-After` (seconds or an HTTP date) as milliseconds from now; null if absent or invalid. */
export function retryAfterMs(value: string | undefined, nowMs: number): number | null {
  if (value === undefined) return null
  if (/^\d+$/.test(value.trim())) return Number(value) * 1000
  const date = Date.parse(value)
  return Number.isNaN(date) ? null : Math.max(0, date - nowMs)
}
