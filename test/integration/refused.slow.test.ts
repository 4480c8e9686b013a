import { describe, expect, it } from 'vitest'
import { readApiSettings } from '#config/settings.ts'
import { createApiClient, type Retry } from '#src/core/api/client.ts'
import { InterruptedError } from '#src/lib/errors.ts'
import type { Fault } from '#src/sandbox/faults.ts'
import { reportHere } from '#test/support/here.ts'
import { idAt, openCompany, type PreparedCompany } from '#test/support/prepared.ts'
import { queryLatest } from '#test/support/project.ts'

/** A run must not wait the five minutes that one refusal asks for: the limit is far below. */
const SOON_MS = 20_000

function refuse(company: PreparedCompany, fault: Partial<Fault>): void {
  company.sandbox.faults.plan.push({ fault: 'status', status: 503, kinds: ['analysis'], ...fault } as Fault)
}

async function pendingOf({ environment }: PreparedCompany): Promise<string[]> {
  const rows = await queryLatest<{ edital_id: string }>(
    environment,
    `SELECT edital_id FROM editais WHERE analysis_state = 'pending' ORDER BY ALL`,
  )
  return rows.map(({ edital_id }) => edital_id)
}

describe('a notice whose analysis is always refused', () => {
  const faults = [
    { status: 503 },
    { status: 503, retryAfterSeconds: 300 },
    { status: 429 },
    { status: 429, retryAfterSeconds: 300 },
    { status: 500, retryAfterSeconds: 300 },
  ]
  it.each(faults.flatMap(fault => ['8', '1'].map(concurrency => [fault, concurrency] as const)))(
    'with %o, of %s at a time, fails alone: the others are loaded, and the next run requests it again',
    async (fault, concurrency) => {
      const company = await openCompany(40, { API_CONCURRENCY: concurrency })
      const id = idAt(company, 20)
      refuse(company, { ...fault, ids: [id] })
      const report = await reportHere(company.environment, {}, 3)

      expect(report).toMatchObject({ status: 'partial', listed: 40, loaded: 39, failed: 1 })
      expect(report.error).toContain(id)
      expect(await pendingOf(company)).toEqual([id])
      // Requests for the others, the list, the retries, and the probes whether the server is healthy.
      expect(report.requests).toBeLessThanOrEqual(40 + 2 * 10)

      // The only one left in the run: no other request can be answered.
      expect(await reportHere(company.environment, {}, 3)).toMatchObject({ unchanged: 39, failed: 1 })
      company.sandbox.faults.plan.length = 0
      expect(await reportHere(company.environment)).toMatchObject({ loaded: 1, unchanged: 39 })
    },
    SOON_MS,
  )

  it(
    'does not count against the API, however many there are: no circuit opens, and all others are loaded',
    async () => {
      const company = await openCompany(60)
      refuse(company, { ids: company.ids.slice(10, 40), retryAfterSeconds: 300 })
      const report = await reportHere(company.environment, {}, 3)
      expect(report).toMatchObject({ loaded: 30, failed: 30, not_attempted: 0 })
    },
    SOON_MS,
  )
})

describe('an endpoint that refuses everything, while others answer', () => {
  it('opens the circuit, since more requests are useless', async () => {
    const company = await openCompany(60)
    refuse(company, { retryAfterSeconds: 300 })
    const report = await reportHere(company.environment, {}, 3)
    expect(report.error).toContain('20 requests failed in a row')
    expect(report.failed + report.not_attempted).toBe(60)
    expect(report.not_attempted).toBeGreaterThan(0)
  })
})

describe('a server that refuses because of load', () => {
  it('by a rate limit gets all its requests in the end, and none is given up', async () => {
    const company = await openCompany(60, { API_CONCURRENCY: '4', API_RETRIES: '5' })
    let [windowStart, admitted, refused] = [0, 0, 0]
    company.sandbox.faults.respond = ({ kind }) => {
      if (kind === 'list') return undefined
      if (Date.now() - windowStart > 30) [windowStart, admitted] = [Date.now(), 0]
      admitted += 1
      if (admitted <= 5) return undefined
      refused += 1
      return { status: 429, body: '{"error":"too_many_requests"}' }
    }
    expect(await reportHere(company.environment)).toMatchObject({ status: 'ok', loaded: 60, failed: 0 })
    expect(refused).toBeGreaterThan(0)
  })

  it('and answers nothing is asked for four minutes, each time with the wait and the end', async () => {
    const company = await openCompany(1)
    const retries: Retry[] = []
    let skippedMs = 0
    company.sandbox.faults.respond = () => {
      skippedMs += 61_000
      return { status: 503, body: '' }
    }
    const api = createApiClient({
      ...readApiSettings(company.environment),
      retryMs: 10,
      signal: new AbortController().signal,
      nowMs: () => Date.now() + skippedMs,
      onRetry: retry => retries.push(retry),
    })
    const beganMs = Date.now()
    await expect(api.list({ statuses: null, limit: 1, offset: 0 })).rejects.toThrow('unavailable (503)')
    expect(company.sandbox.requests.total).toBe(5)
    expect(retries).toHaveLength(4)
    for (const { reason, againMs, untilMs } of retries) {
      expect(reason).toBe('the API is unavailable (503)')
      expect(againMs).toBeGreaterThan(0)
      // Four minutes after the first failure, and the time that the test took.
      const afterMs = (untilMs as number) - beganMs - 61_000
      expect(afterMs).toBeGreaterThanOrEqual(240_000)
      expect(afterMs).toBeLessThan(240_000 + SOON_MS)
    }
    await api.close()
  })

  it('and asks all requests to wait for minutes is probed once, and then left alone', async () => {
    const company = await openCompany(40)
    const stop = new AbortController()
    const api = createApiClient({
      ...readApiSettings(company.environment),
      retryMs: 10,
      signal: stop.signal,
      nowMs: Date.now,
    })
    await api.analysis(idAt(company, 0))
    refuse(company, { retryAfterSeconds: 300 })
    const asked = company.ids.slice(1).map(id => api.analysis(id).catch(error => error))
    const { requests } = company.sandbox
    // The requests under way together, and the probe: a resource that was answered before.
    const inAll = () => requests.byKind.analysis
    await expect.poll(() => requests.byId.get(idAt(company, 0))?.analysis).toBe(2)
    await expect.poll(() => requests.concurrent).toBe(0)
    const then = inAll()
    await new Promise(resolve => setTimeout(resolve, 200))
    expect(inAll()).toBe(then)
    expect(requests.byId.get(idAt(company, 0))?.analysis).toBe(2)
    stop.abort()
    for (const error of await Promise.all(asked)) expect(error).toBeInstanceOf(InterruptedError)
    await api.close()
  })
})
