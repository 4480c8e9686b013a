import { describe, expect, it } from 'vitest'
import { createRefusals, type Refusals } from '#src/core/api/endpoints.ts'
import { createPace, retryAfterMs } from '#src/core/api/transport.ts'

it('requests that waited for the end of a pause are sent at the set rate, not all at once', async () => {
  const pace = createPace({ maxRps: 50, nowMs: Date.now })
  const { signal } = new AbortController()
  const startedMs = Date.now()
  pace.pause(100)
  const sentMs = await Promise.all(Array.from({ length: 6 }, () => pace.turn(signal).then(() => Date.now())))
  // Each timer may fire a millisecond early; a slow machine only makes them late.
  const earliestMs = sentMs.map((_, index) => 99 + index * 19)
  const sinceMs = sentMs.map(at => at - startedMs).sort((a, b) => a - b)
  expect(
    sinceMs.every((ms, index) => ms >= (earliestMs[index] as number)),
    sinceMs.join(' '),
  ).toBe(true)
})

it('Retry-After is seconds or a date, and anything else is ignored', () => {
  const nowMs = Date.parse('2026-11-20T12:00:00Z')
  expect(retryAfterMs('7', nowMs)).toBe(7000)
  expect(retryAfterMs('Fri, 20 Nov 2026 12:00:30 GMT', nowMs)).toBe(30_000)
  expect(retryAfterMs('Fri, 20 Nov 2026 11:00:00 GMT', nowMs)).toBe(0)
  expect(retryAfterMs('soon', nowMs)).toBeNull()
  expect(retryAfterMs(undefined, nowMs)).toBeNull()
})

it('a pause that ends early releases all requests that waited for its end', async () => {
  const pace = createPace({ maxRps: null, nowMs: Date.now })
  pace.pause(200_000)
  const { signal } = new AbortController()
  const waiting = Promise.all([pace.turn(signal), pace.turn(signal)])
  pace.resume()
  await waiting
  await pace.turn(signal)
})

describe('a refusal', () => {
  const answer = (refusals: Refusals, resource: string) => refusals.answered(resource, refusals.sent())
  const open = () => createRefusals({ firstWaitMs: 1000 })

  it('with a short pause or none counts as load at first', () => {
    for (const retryAfterMs of [null, 0, 5000]) expect(open().refused('a', retryAfterMs)).toBe('load')
  })

  it('with a long pause is unclear, and so is a second one if nothing else was answered since', () => {
    const refusals = open()
    answer(refusals, 'list')
    expect(refusals.refused('a', 300_000)).toBe('unclear')
    expect(refusals.refused('a', 300_000)).toBe('unclear')
    expect(refusals.refused('b', null)).toBe('load')
    expect(refusals.refused('b', null)).toBe('unclear')
  })

  it('repeated is about the resource only if requests sent since for others were answered', () => {
    const refusals = open()
    const sentBefore = refusals.sent()
    refusals.refused('a', null)
    refusals.answered('b', sentBefore)
    expect(refusals.refused('a', null)).toBe('unclear')
    answer(refusals, 'c')
    expect(refusals.refused('a', null)).toBe('own')
    answer(refusals, 'd')
    expect(refusals.refused('a', 300_000)).toBe('own')
    // Ten resources are refused while others are answered: none is mistaken for load.
    const many = Array.from({ length: 10 }, (_, n) => `x${n}`)
    for (const resource of many) refusals.refused(resource, 1000)
    answer(refusals, 'e')
    expect(many.map(resource => refusals.refused(resource, 1000))).toEqual(many.map(() => 'own'))
  })

  it('counts as load if others are refused now and answered later, as by a rate limit', () => {
    const refusals = open()
    // A bucket that admits every third request: each is refused about twice, and all are answered in turn.
    const waiting = Array.from({ length: 30 }, (_, n) => `x${n}`)
    const meanings: string[] = []
    for (let asked = 0; waiting.length > 0; asked += 1) {
      const resource = waiting.shift() as string
      if (asked % 3 === 2) answer(refusals, resource)
      else {
        meanings.push(refusals.refused(resource, null))
        waiting.push(resource)
      }
    }
    const own = meanings.filter(meaning => meaning !== 'load')
    expect(meanings.length).toBeGreaterThan(50)
    expect(own.length).toBeLessThan(meanings.length / 10)
  })

  it('of one resource costs at most half a minute and four tries, and then the resource is given up', () => {
    const waits = (retryAfterMs: number | null) => {
      const refusals = open()
      refusals.refused('a', retryAfterMs)
      return Array.from({ length: 5 }, () => refusals.ownWaitMs('a', retryAfterMs))
    }
    expect(waits(null).slice(0, 5)).toEqual([1000, 2000, 4000, 8000, null])
    expect(waits(20_000).slice(0, 2)).toEqual([20_000, null])
    expect(waits(300_000)[0]).toBeNull()
  })
})
