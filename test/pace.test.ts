import { expect, it } from 'vitest'
import { createPace, retryAfterMs } from '#src/api/pace.ts'

it('requests that waited for the end of a pause go out at the set rate, not together', async () => {
  const pace = createPace({ maxRps: 50, nowMs: Date.now })
  pace.pause(100)
  const { signal } = new AbortController()
  const startedMs = Date.now()
  const sentMs = await Promise.all(Array.from({ length: 6 }, () => pace.turn(signal).then(() => Date.now())))
  // Timers may fire a millisecond early each.
  expect(Math.min(...sentMs) - startedMs).toBeGreaterThanOrEqual(99)
  expect(Math.max(...sentMs) - Math.min(...sentMs)).toBeGreaterThanOrEqual(5 * 20 - 6)
})

it('Retry-After is seconds or a date, and anything else is none', () => {
  const nowMs = Date.parse('2026-11-20T12:00:00Z')
  expect(retryAfterMs('7', nowMs)).toBe(7000)
  expect(retryAfterMs('Fri, 20 Nov 2026 12:00:30 GMT', nowMs)).toBe(30_000)
  expect(retryAfterMs('Fri, 20 Nov 2026 11:00:00 GMT', nowMs)).toBe(0)
  expect(retryAfterMs('soon', nowMs)).toBeNull()
  expect(retryAfterMs(undefined, nowMs)).toBeNull()
})
